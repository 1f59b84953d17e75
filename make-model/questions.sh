#!/usr/bin/env bash
# The skill `questions`: its data, its learning, its calibration, its figures.
#   questions.sh CORPUS DATA [WORK [BUILTIN [VARIANT]]]
# Each variant is made in WORK/questions/VARIANT/encoder/skills/questions, with its figures in WORK/questions/VARIANT/
# figures.jsonl; several may run side by side, and the first makes the data for all. Without a variant, the best one is made
# and put into BUILTIN. An H200 alone takes about two minutes for the data and four for a variant.
# MINUTES=4 learns for so long instead of by epochs. REHEARSAL=3 takes so many articles, 20 steps and few questions.
source "$(dirname "$0")/common.sh" "$@"
best=B variant=${5:-B} rehearsal=${REHEARSAL:-}
made=$work/questions mixture=$variant rate=7e-4 settings=()
case $variant in
  A) epochs=3 ;;                                          # questions without an answer as people wrote them
  B) epochs=2 ;;                                          # and crafted ones
  C) epochs=2 ;;                                          # those of people twice as often
  D) mixture=B epochs=2 settings=(--set capitals=true) ;; # looking at capitals
  E) mixture=B epochs=3 rate=1e-3 ;;                      # longer and faster
  *) echo "there is no variant $variant; choose A, B, C, D or E" >&2 && exit 2 ;;
esac
lasting=train.epochs=$epochs
[ -z "${MINUTES:-}" ] || lasting=train.minutes=$MINUTES
[ -z "$rehearsal" ] || lasting=train.steps=20

mkdir -p "$made"
(
  flock 9
  [ -f "$made/train-$mixture.json" ] ||
    run python make-model/question_data.py "$data" "$corpus" "$made" "$encoder" ${rehearsal:+"$rehearsal"}
) 9>"$made/lock"

# a model of its own, beside which the skill lies
work=$made/$variant builtin=$made/$variant
mkdir -p "$builtin/encoder/skills"
cp "$encoder"/{config.json,model.safetensors,tokenizer.json,tokenizer_config.json} "$builtin/encoder"
[ -f "$work/learnt" ] || run clearhead finetune answer --model "$encoder" --data "$made/train-$mixture.json" \
  --skill-for answer --out "$builtin/encoder/skills/questions" --overwrite --set lora=32 --set length=384 --set items=48 \
  --set train.learning_rate=$rate --set "$lasting" "${settings[@]}"
touch "$work/learnt"
run python make-model/trim.py "$builtin/encoder/skills/questions" 24
run python make-model/calibrate.py "$builtin/encoder" questions "$made/calibration.json"

rm -f "$work/figures.jsonl"
measured "questions, 36 articles of SQuAD 1.1 dev (skill)" clearhead evaluate answer --model "$builtin/encoder" \
  --skill questions --data "$made/dev.json"
measured "questions, part of SQuAD 2.0 dev (skill)" python benchmarks/abstaining.py "$data/squad2/dev-part.json" \
  --model "$builtin/encoder" --plot "$builtin/encoder/skills/questions/reliability.svg" ${rehearsal:+--count 60}
run python make-model/first_contact.py "$builtin/encoder" questions | tee -a "$work/figures.jsonl"
if [ -z "${5:-}" ]; then
  cp -r "$builtin/encoder/skills/questions" "$encoder/skills/"
  cat "$work/figures.jsonl" >>"${3:-scratch/model}/figures.jsonl"
fi
