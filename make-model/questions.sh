#!/usr/bin/env bash
# The skill `questions`: its data, its learning, its calibration, its figures.
#   questions.sh CORPUS DATA [WORK [BUILTIN [VARIANT]]]
# Each variant is made in WORK/questions/VARIANT/encoder/skills/questions, with its figures in WORK/questions/VARIANT/
# figures.jsonl; several may run side by side, and the first makes the data for all. Without a variant, the best one is made
# and put into BUILTIN. An H200 alone takes about two minutes for the data and four for a variant.
# Variant F goes on from a skill that there is, START or that of BUILTIN, on two cores of a CPU beside other work: four
# minutes of a core for its data and half an hour for 500 steps. What came of it is in docs/benchmarks.md; it is not in the box.
# MINUTES=4 learns for so long instead of by epochs. REHEARSAL=3 takes so many articles, 20 steps and few questions.
source "$(dirname "$0")/common.sh" "$@"
variant=${5:-B} rehearsal=${REHEARSAL:-}
made=$work/questions mixture=$variant rate=7e-4 articles= rank=24 learn=(clearhead)
settings=(--set lora=32 --set length=384 --set items=48)
case $variant in
  A) epochs=3 ;;                                           # questions without an answer as people wrote them
  B) epochs=2 ;;                                           # and crafted ones
  C) epochs=2 ;;                                           # those of people twice as often
  D) mixture=B epochs=2 settings+=(--set capitals=true) ;; # looking at capitals
  E) mixture=B epochs=3 rate=1e-3 ;;                       # longer and faster
  F) # goes on
    rate=5e-4 articles=110 rank=12 learn=(torchrun --nproc-per-node 2 -m clearhead)
    settings=(--skill "${START:-questions}" --set lora=24 --set length=320 --set items=16 --set train.accumulate=2
      --set train.warmup=0.05 --set train.precision=bf16 --set train.every.save=25)
    export OMP_NUM_THREADS=1
    ;;
  *) echo "there is no variant $variant; choose A, B, C, D, E or F" >&2 && exit 2 ;;
esac
lasting=train.epochs=${epochs:-}
[ $variant != F ] || lasting=train.steps=500
[ -z "${MINUTES:-}" ] || lasting=train.minutes=$MINUTES
[ -z "$rehearsal" ] || lasting=train.steps=20

mkdir -p "$made"
(
  flock 9
  [ -f "$made/train-$mixture.json" ] ||
    run python make-model/question_data.py "$data" "$corpus" "$made" "$encoder" \
      ${rehearsal:-$articles} ${rehearsal:+40}
) 9>"$made/lock"

# a model of its own, beside which the skill lies
work=$made/$variant builtin=$made/$variant
mkdir -p "$builtin/encoder/skills"
cp "$encoder"/{config.json,model.safetensors,tokenizer.json,tokenizer_config.json} "$builtin/encoder"
[ -f "$work/learnt" ] || run "${learn[@]}" finetune answer --model "$encoder" --data "$made/train-$mixture.json" \
  --skill-for answer --out "$builtin/encoder/skills/questions" --overwrite --set train.learning_rate=$rate --set "$lasting" \
  "${settings[@]}"
touch "$work/learnt"
run python make-model/trim.py "$builtin/encoder/skills/questions" "$rank"
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
