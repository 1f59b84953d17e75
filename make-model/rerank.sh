#!/usr/bin/env bash
# The skill `rerank`: does a passage answer a query? It reads both at once, and puts what was found in order.
#   rerank.sh CORPUS DATA [WORK [BUILTIN [MINUTES]]]; CORPUS is not read, WORK/search has what search.sh made of it.
# A GPU alone takes five minutes.
source "$(dirname "$0")/common.sh" "$@"
minutes=${5:-4} made=$work/rerank skill=$encoder/skills/rerank

[ -f "$made/dev.jsonl" ] || run python make-model/rerank_data.py "$data" "$made" "$work"/search/part-*.jsonl
run clearhead finetune classify --model "$encoder" --data "$made/train.jsonl" --skill-for rerank --out "$skill" --overwrite \
  --set lora=32 --set length=256 --set items=128 --set train.learning_rate=7e-4 --set train.minutes="$minutes"
run python make-model/trim.py "$skill" 24
run python make-model/calibrate.py "$encoder" rerank "$made/dev.jsonl"
measured "rerank, questions of SQuAD with ten passages each (skill)" clearhead evaluate classify --model "$encoder" \
  --skill rerank --data "$made/dev.jsonl"
