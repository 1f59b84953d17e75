#!/usr/bin/env bash
# The classic BERT of the box, from raw text to its card: bert.sh CORPUS DATA [WORK [BUILTIN]]. What is there is kept.
# A GPU alone takes eight minutes; MINUTES=1 rehearses.
source "$(dirname "$0")/common.sh" "$@"
folder=$builtin/bert

[ -f "$work/bert-words/tokenizer.json" ] ||
  run clearhead tokenizer train "$corpus/part-0.jsonl.xz" --vocabulary 6144 --out "$work/bert-words"
run clearhead pretrain --corpus "$corpus/*.jsonl.xz" --tokenizer "$work/bert-words" --family bert \
  --recipe make-model/recipes/bert.toml --set train.minutes="${MINUTES:-7}" --out "$work/bert"
run python make-model/pack.py "$work/bert" "$folder"
run python make-model/bert_card.py "$work/bert" "$folder"
