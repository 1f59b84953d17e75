#!/usr/bin/env bash
# The built-in model from raw text to its card: `make model CORPUS=DIR DATA=DIR`, on a machine with a GPU.
# CORPUS holds the pre-training text (*.jsonl.xz), DATA the unpacked public sets. Every step is a command of clearhead;
# one that was stopped goes on when this is run again.
source "$(dirname "$0")/common.sh" "$@"

# 1. words
[ -f "$work/words/tokenizer.json" ] ||
  run clearhead tokenizer train "$corpus"/part-{0,3}.jsonl.xz --vocabulary 16384 --out "$work/words"

# 2. pre-training, three times on short texts and then on long ones
run clearhead pretrain --corpus "$corpus/*.jsonl.xz" --tokenizer "$work/words" --family modernbert --preset small \
  --recipe make-model/recipes/short.toml --out "$work/short"
run clearhead pretrain --corpus "$corpus/*.jsonl.xz" --model "$work/short" \
  --recipe make-model/recipes/more.toml --out "$work/more"
run clearhead pretrain --corpus "$corpus/*.jsonl.xz" --model "$work/more" \
  --recipe make-model/recipes/more2.toml --out "$work/more2"
run clearhead pretrain --corpus "$corpus/*.jsonl.xz" --model "$work/more2" \
  --recipe make-model/recipes/long.toml --out "$work/long"
run python make-model/pack.py "$work/long" "$encoder"

# 3. skills
run python make-model/skill_data.py "$data" "$work/skills"
skill() { # name, task, uses, train, dev, rank to keep, settings…; more ranks learn better than there is room for
  local name=$1 task=$2 uses=$3 train=$4 dev=$5 rank=$6
  shift 6
  run clearhead finetune "$task" --model "$encoder" --data "$train" --dev "$dev" --skill-for "$uses" \
    --out "$encoder/skills/$name" --overwrite --set lora=8 --set train.learning_rate=1e-3 "$@"
  run python make-model/trim.py "$encoder/skills/$name" "$rank"
}
calibrated() { run python make-model/calibrate.py "$encoder" "$@"; } # skill, development set
skill sentiment classify classify "$work/skills/sentiment/train.jsonl" "$work/skills/sentiment/dev.jsonl" 6 --set train.epochs=2
calibrated sentiment "$work/skills/sentiment/dev.jsonl"
skill spam classify none "$work/skills/spam/train.jsonl" "$work/skills/spam/dev.jsonl" 6 --set train.epochs=4
calibrated spam "$work/skills/spam/dev.jsonl"
skill entities tag tag "$work/skills/entities/train.txt" "$data/conll2003/eng.testa" 6 \
  --set train.epochs=4 --set documents=true --set items=16 --set length=256 --set capitals=true
calibrated entities "$data/conll2003/eng.testa"
skill inference classify compare "$work/skills/inference/train.jsonl" "$work/skills/inference/dev.jsonl" 10 \
  --set train.epochs=4 --set lora=16
calibrated inference "$work/skills/inference/dev.jsonl"
run bash make-model/questions.sh "$corpus" "$data" "$work" "$builtin"
run clearhead finetune regress --model "$encoder" --data "$data/glue/STS-B/train.tsv" --out "$work/judge" \
  --set train.learning_rate=2e-4 --set train.epochs=6
run python make-model/judge.py "$work/judge" "$work/skills/similarity/train.jsonl" "$work/skills/similarity/judged.jsonl"
skill similarity similar embed "$work/skills/similarity/judged.jsonl" "$work/skills/similarity/dev.jsonl" 6 \
  --set train.epochs=3 --set items=64 --set objective.ranking=true
score() { # name, task, data, skill, options…
  measured "$1 (skill)" clearhead evaluate "$2" --model "$encoder" --skill "$4" --data "$3" "${@:5}"
}
score "sentiment, SST-2 dev" classify "$work/skills/sentiment/dev.jsonl" sentiment
score "sentiment, 2,000 of IMDB's test reviews" classify "$work/skills/sentiment/imdb.jsonl" sentiment
score "spam, messages" classify "$work/skills/spam/messages.jsonl" spam
score "spam, mails" classify "$work/skills/spam/mails.jsonl" spam
score "entities, CoNLL-2003 dev" tag "$data/conll2003/eng.testa" entities
score "entities, CoNLL-2003 test" tag "$data/conll2003/eng.testb" entities
score "entities, CoNLL-2003 test, whole documents" tag "$data/conll2003/eng.testb" entities --documents
score "inference" classify "$work/skills/inference/dev.jsonl" inference
score "similarity, STS-B dev" similar "$work/skills/similarity/dev.jsonl" similarity
python make-model/first_contact.py "$encoder" >>"$work/figures.jsonl"

# 4. figures of full fine-tuning, three seeds each; the card quotes them
figure() { # name, task, train, dev, settings…
  local name=$1 task=$2 train=$3 dev=$4
  shift 4
  measured "$name" clearhead finetune "$task" --model "$encoder" --data "$train" --dev "$dev" --seeds 3 \
    --out "$work/figures/$name" --set train.learning_rate=2e-4 "$@"
}
for name in SST-2 CoLA MRPC RTE; do
  epochs=$([ $name = SST-2 ] && echo 2 || echo 6)
  figure $name classify "$data/glue/$name/train.tsv" "$data/glue/$name/dev.tsv" --set train.epochs="$epochs"
done
figure STS-B regress "$data/glue/STS-B/train.tsv" "$data/glue/STS-B/dev.tsv" --set train.epochs=6
figure CoNLL-2003 tag "$data/conll2003/eng.train" "$data/conll2003/eng.testb" \
  --set train.epochs=12 --set documents=true --set items=4 --set length=512 --set capitals=true
figure SQuAD-1.1 answer "$data/squad/train-v1.1.json" "$data/squad/dev-v1.1.json" \
  --set train.epochs=2 --set length=384 --set items=48

# 5. the card; of the skills' own, it has taken what they say
run python make-model/card.py "$work" "$encoder"
rm -rf "$encoder"/skills/*/{run,README.md}
