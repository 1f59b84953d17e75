#!/usr/bin/env bash
# The skill `search`: vectors of queries and passages, learnt from all-MiniLM-L6-v2's over the corpus and the sets, and from
# which passage is whose. TEACHER names its folder where the package that carries it is not installed.
# With minutes and a rank: search.sh CORPUS DATA WORK BUILTIN [MINUTES [RANK]]; about 8 minutes of a GPU.
source "$(dirname "$0")/common.sh" "$@"
minutes=${5:-6} rank=${6:-64} out=$work/search skill=$builtin/encoder/skills/search
teacher=${TEACHER:-$(cd benchmarks && python -c 'from real_weights import minilm; print(minilm())')}
mkdir -p "$out"

if [ ! -f "$out/pairs.jsonl" ]; then
  made=()
  for shard in "$corpus"/*.jsonl.xz; do
    name=$out/$(basename "$shard" .xz)
    run python make-model/search_data.py "$data" "$name" "$shard" &
    made+=("$name")
  done
  run python make-model/search_data.py "$data" "$out/sets.jsonl" &
  run python make-model/documentation.py "$data" "$out/documentation.jsonl" torch numpy scipy sklearn sympy networkx \
    transformers huggingface_hub pandas matplotlib fontTools
  wait
  cat "${made[@]}" "$out/sets.jsonl" "$out/documentation.jsonl" >"$out/pairs.jsonl.part"
  mv "$out/pairs.jsonl.part" "$out/pairs.jsonl"
fi
[ -f "$out/taught" ] || { run python make-model/teach.py "$teacher" "$out/pairs.jsonl" "$out/vectors.npy" "${WORKERS:-6}" && touch "$out/taught"; }
run clearhead finetune similar --model "$builtin/encoder" --data "$out/pairs.jsonl" --teacher "$out/vectors.npy" \
  --skill-for search --out "$skill" --overwrite --set lora="$rank" --set train.learning_rate=1e-3 \
  --set train.minutes="$minutes" --set items=512 --set length=192 --set train.warmup=0.03
