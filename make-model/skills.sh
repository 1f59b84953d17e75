#!/usr/bin/env bash
# The skills sentiment, spam, entities, part-of-speech and inference: their data, learning, calibration, figures.
#   skills.sh CORPUS DATA [WORK [BUILTIN [SKILL:VARIANT…]]]; CORPUS is not read
# Each variant is made in WORK/variants/SKILL-VARIANT/encoder/skills/SKILL, with its figures on development data and of first
# contact in WORK/variants/SKILL-VARIANT/figures.jsonl; several may run side by side, and the first makes the data for all
# (a minute of CPU). Without names, or with KEEP=yes, a skill goes on into BUILTIN, and its test set is read, once.
# An H200 alone takes two to four minutes for each, `silver` five. TIME=2 learns for twice as long, TIME=0.1 rehearses.
source "$(dirname "$0")/common.sh" "$@"
shift $(($# < 4 ? $# : 4))
keep=${KEEP:-}
if [ $# = 0 ]; then
  keep=yes
  set -- sentiment:high spam:capitals entities:silver part-of-speech:high inference:high
fi
made=$work/skills

mkdir -p "$made" "$work/variants"
(
  flock 9
  [ -f "$made/done" ] || { run python make-model/skill_data.py "$data" "$made" && touch "$made/done"; }
) 9>"$made/lock"

minutes() { python -c "print($1 * ${TIME:-1})"; }
teach() { # skill, task, how many, train, minutes, settings…: fully fine-tuned models, side by side
  local skill=$1 task=$2 count=$3 train=$4 time=$5 seed
  shift 5
  for ((seed = 0; seed < count; seed++)); do
    run clearhead finetune "$task" --model "$encoder" --data "$train" --out "$work/teachers/$skill-$seed" --overwrite \
      --set train.learning_rate=2e-4 --set train.minutes="$(minutes "$time")" --set train.seed="$seed" "$@" &
  done
  wait
  run python make-model/silver.py "$skill" "$data" "$made/$skill/silver" "$work/teachers/$skill"-*
}
learn() { # skill, variant, task, uses, train, rank to keep, minutes, settings…: more ranks learn better than there is room for
  local skill=$1 variant=$2 task=$3 uses=$4 train=$5 rank=$6 time=$7
  shift 7
  here=$work/variants/$skill-$variant/encoder
  mkdir -p "$here/skills"
  cp "$encoder"/{config.json,model.safetensors,tokenizer.json,tokenizer_config.json} "$here"
  if [ ! -f "$here/learnt" ]; then
    run clearhead finetune "$task" --model "$encoder" --data "$train" --skill-for "$uses" --out "$here/skills/$skill" \
      --overwrite --set train.minutes="$(minutes "$time")" "$@"
    run python make-model/trim.py "$here/skills/$skill" "$rank"
    touch "$here/learnt"
  fi
}
score() { # name, skill, task, data, options…
  measured "$1 (skill)" clearhead evaluate "$3" --model "$here" --skill "$2" --data "$4" "${@:5}"
}

for asked in "$@"; do (
  skill=${asked%:*} variant=${asked#*:} own=$made/${asked%:*}
  case $asked in
  sentiment:silver)
    teach sentiment classify 2 "$own/train.jsonl" 2 --set items=64
    cat "$own"/{train.jsonl,silver} >"$own/train-silver.jsonl"
    learn sentiment silver classify classify "$own/train-silver.jsonl" 12 3 --set lora=32 --set items=64 \
      --set train.learning_rate=7e-4 ;;
  sentiment:high) learn sentiment high classify classify "$own/train.jsonl" 12 3 --set lora=32 --set items=64 \
    --set train.learning_rate=7e-4 ;;
  spam:capitals) learn spam capitals classify none "$own/train.jsonl" 8 2.5 --set lora=16 --set length=384 \
    --set train.learning_rate=7e-4 --set capitals=true ;;
  spam:plain) learn spam plain classify none "$own/train.jsonl" 8 2.5 --set lora=16 --set length=384 \
    --set train.learning_rate=7e-4 ;;
  entities:silver)
    teach entities tag 3 "$own/train.txt" 2.5 --set documents=true --set items=8 --set length=384 --set capitals=true
    { cat "$own/train.txt" && echo && cat "$own/silver"; } >"$own/train-silver.txt"
    learn entities silver tag tag "$own/train-silver.txt" 12 4 --set lora=32 --set train.learning_rate=7e-4 \
      --set documents=true --set items=16 --set length=256 --set capitals=true ;;
  entities:high) learn entities high tag tag "$own/train.txt" 12 3 --set lora=32 --set train.learning_rate=7e-4 \
    --set documents=true --set items=16 --set length=256 --set capitals=true ;;
  part-of-speech:high) learn part-of-speech high tag none "$own/train.txt" 6 1.5 --set lora=16 \
    --set train.learning_rate=7e-4 --set items=16 --set capitals=true ;;
  inference:high) learn inference high classify compare "$own/train.jsonl" 12 3 --set lora=32 \
    --set train.learning_rate=5e-4 ;;
  inference:fast) learn inference fast classify compare "$own/train.jsonl" 12 3 --set lora=16 \
    --set train.learning_rate=1e-3 ;;
  *) echo "there is no variant $asked; skills.sh lists them" >&2 && exit 2 ;;
  esac

  target=$encoder/skills figures=$work/figures.jsonl work=$work/variants/$skill-$variant
  builtin=$work
  rm -f "$work/figures.jsonl"
  dev=$own/dev.jsonl
  [ "$skill" != entities ] || dev=$data/conll2003/eng.testa
  [ "$skill" != part-of-speech ] || dev=$own/dev.txt
  run python make-model/calibrate.py "$here" "$skill" "$dev"
  case $skill in
  sentiment)
    score "sentiment, SST-2 dev" sentiment classify "$dev"
    score "sentiment, 2,000 of IMDB's test reviews" sentiment classify "$own/imdb.jsonl" ;;
  spam) for part in messages mails; do score "spam, $part" spam classify "$own/$part.jsonl"; done ;;
  entities)
    score "entities, CoNLL-2003 dev" entities tag "$dev"
    score "entities, CoNLL-2003 dev, whole documents" entities tag "$dev" --documents
    if [ -n "$keep" ]; then
      score "entities, CoNLL-2003 test" entities tag "$data/conll2003/eng.testb"
      score "entities, CoNLL-2003 test, whole documents" entities tag "$data/conll2003/eng.testb" --documents
    fi ;;
  part-of-speech) score "part of speech, UD-EWT dev" part-of-speech tag "$dev" ;;
  inference) for part in captions genres; do score "inference, $part" inference classify "$own/$part.jsonl"; done ;;
  esac
  [ "$skill" = part-of-speech ] || run python make-model/first_contact.py "$here" "$skill" | grep '^{' | tee -a "$work/figures.jsonl"
  if [ -n "$keep" ]; then
    rm -rf "${target:?}/$skill"
    cp -r "$here/skills/$skill" "$target/"
    cat "$work/figures.jsonl" >>"$figures"
  fi
); done
