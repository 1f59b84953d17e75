#!/usr/bin/env bash
# The small GPT of the box, from raw text to its card: gpt.sh CORPUS DATA [WORK [BUILTIN]]. What is there already is kept.
# 9 minutes of a GPU alone: MINUTES of pre-training (7) and TAUGHT minutes with summaries (1); the rest is evaluation.
# A rehearsal on a CPU: SHARE=0.01 (of the corpus) MINUTES=0.2 TAUGHT=0.2 SMALL="--set model.n_layer=1 …" LIMIT="--limit 2"
# shellcheck source=common.sh
source "$(dirname "$0")/common.sh"
texts=$work/gpt-data

# 1. paragraphs of plain sentences, and what is to be measured
[ -f "$texts/instruct.jsonl" ] || run python make-model/writer_data.py "$corpus" "$data" "$texts" --share "${SHARE:-1.0}"

# 2. words: case is kept
[ -f "$work/gpt-words/tokenizer.json" ] ||
  run clearhead tokenizer train "$texts"/plain/*.jsonl --kind gpt2 --vocabulary 8192 --out "$work/gpt-words"

# 3. the next token, of running text; a third of the articles is in passages with summaries
# shellcheck disable=SC2086
run clearhead pretrain --corpus "$texts/plain/*.jsonl" --tokenizer "$work/gpt-words" --family gpt2 \
  --recipe make-model/recipes/gpt.toml --set train.minutes="${MINUTES:-7}" ${SMALL:-} --out "$work/gpt-plain"

# 4. a passage and its summary in one window, and a paragraph and the next, so that it still writes
# shellcheck disable=SC2086
run clearhead finetune instruct --model "$work/gpt-plain" --data "$texts/instruct.jsonl" --out "$work/gpt" \
  --set length=512 --set items=64 --set train.learning_rate=2e-4 --set train.epochs=none \
  --set train.minutes="${TAUGHT:-1}" ${ITEMS:-}

# 5. in int8, with its habits; figures and card
run python make-model/pack.py "$work/gpt" "$builtin/gpt" make-model/gpt.json
# shellcheck disable=SC2086
run python benchmarks/writing.py --model "$builtin/gpt" --held-out "$texts/held-out.jsonl" \
  --wikitext "$data/wikitext-2/test.txt" --scitldr "$texts/scitldr.jsonl" --bbc "$texts/bbc.jsonl" ${LIMIT:-} \
  --json "$work/gpt-figures.json"
run python benchmarks/writing.py --model "$work/gpt-plain" --held-out "$texts/held-out.jsonl" ${LIMIT:-} \
  --json "$work/gpt-plain-figures.json"
run python make-model/gpt_card.py "$work" "$builtin/gpt"
