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

# 3. skills, and what they are measured on is not among what they learn
run bash make-model/skills.sh "$corpus" "$data" "$work" "$builtin"
run bash make-model/questions.sh "$corpus" "$data" "$work" "$builtin"
run clearhead finetune regress --model "$encoder" --data "$data/glue/STS-B/train.tsv" --out "$work/judge" \
  --set train.learning_rate=2e-4 --set train.epochs=6
run python make-model/judge.py "$work/judge" "$work/skills/similarity/train.jsonl" "$work/skills/similarity/judged.jsonl"
run clearhead finetune similar --model "$encoder" --data "$work/skills/similarity/judged.jsonl" --skill-for embed \
  --dev "$work/skills/similarity/dev.jsonl" --out "$encoder/skills/similarity" --overwrite --set lora=8 \
  --set train.learning_rate=1e-3 --set train.epochs=3 --set items=64 --set objective.ranking=true
run python make-model/trim.py "$encoder/skills/similarity" 6
run bash make-model/search.sh "$corpus" "$data" "$work" "$builtin"
run bash make-model/rerank.sh "$corpus" "$data" "$work" "$builtin"
run python make-model/overlaps.py "$data" "$work"
measured "similarity, STS-B dev (skill)" clearhead evaluate similar --model "$encoder" --skill similarity \
  --data "$work/skills/similarity/dev.jsonl"
python make-model/first_contact.py "$encoder" similarity >>"$work/figures.jsonl"

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
figure SQuAD-1.1 answer "$work/questions/kinds/plain.json" "$data/squad/dev-v1.1.json" \
  --set train.epochs=2 --set length=384 --set items=48

# 5. the card; of the skills' own, it has taken what they say
run python make-model/card.py "$work" "$encoder"
rm -rf "$encoder"/skills/*/{run,README.md}

# 6. the other models of the box, each by a script of its own
for name in translator gpt bert; do
  run bash "make-model/$name.sh" "$corpus" "$data" "$work" "$builtin"
done
