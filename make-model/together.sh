#!/usr/bin/env bash
# Everything in the box again, side by side on one GPU and within some minutes: together.sh CORPUS DATA WORK BUILTIN [MINUTES]
# The encoder of BUILTIN goes on from where it is (recipes/last.toml) for a third of the time; the skills, the translator, the
# GPT and the BERT begin as soon as what they need is there, and stop at the deadline. Nothing is put into BUILTIN: what comes
# of it is in WORK/box, how each job went in WORK/log. TEACHER is the folder of all-MiniLM-L6-v2 (search.sh).
#
# Many small runs share a GPU well only if their kernels may run at the same time (NVIDIA's MPS); its limit on the share of
# multiprocessors must not be set, since every run diverged at once under it. Jobs run from a copy of the sources, which may
# change meanwhile.
source "$(dirname "$0")/common.sh" "$@"
corpus=$(realpath "$corpus") data=$(realpath "$data") work=$(realpath "$work") start=$(realpath "$encoder")
minutes=${5:-26} deadline=$(($(date +%s) + ${5:-26} * 60)) log=$work/log box=$work/box teacher=${TEACHER:?}
export OMP_NUM_THREADS=1 TORCHINDUCTOR_COMPILE_THREADS=4 TEACHER=$teacher
mkdir -p "$log" "$box" "$work/copy"
cp -r src make-model benchmarks tests pyproject.toml "$work/copy/"
cd "$work/copy"
export PYTHONPATH=$work/copy/src

left() { python -c "import time; print(max(0.1, round(($deadline - time.time() - $1) / 60, 2)))"; } # minutes, less some seconds
job() { # name, command…: in the background; others wait for its end
  local name=$1
  shift
  {
    "$@" >"$log/$name.log" 2>&1 && echo ok >"$log/$name.end" || echo failed >"$log/$name.end"
    echo "$name: $(cat "$log/$name.end"), $((deadline - $(date +%s))) s before the end"
  } &
}
after() { # names… -- command…: once these have ended well
  while [ "$1" != -- ]; do
    until [ -f "$log/$1.end" ]; do sleep 0.5; done
    [ "$(cat "$log/$1.end")" = ok ] || return 1
    shift
  done
  shift
  "$@"
}

if command -v nvidia-cuda-mps-control >/dev/null; then nvidia-cuda-mps-control -d || true; fi

# 1. data; each shard by a process of its own
job everyday python make-model/everyday.py "$data" "$work/everyday.jsonl"
job skill-data python make-model/skill_data.py "$data" "$work/skills"
job question-data python make-model/question_data.py "$data" "$corpus" "$work/questions" "$start"
mkdir -p "$work/search"
pairs=()
for shard in "$corpus"/*.jsonl.xz; do
  name=$(basename "$shard" .jsonl.xz)
  job "pairs-$name" python make-model/search_data.py "$data" "$work/search/$name.jsonl" "$shard"
  pairs+=("pairs-$name")
done
job pairs-sets python make-model/search_data.py "$data" "$work/search/sets.jsonl"
taught() {
  local docs=$data/documentation.jsonl # made where the packages are
  cat "$work"/search/*.jsonl $([ -f "$docs" ] && echo "$docs") >"$work/search/pairs.part"
  mv "$work/search/pairs.part" "$work/search/pairs"
  mkdir "$work/search/found" && mv "$work"/search/*.jsonl "$work/search/found/"
  mv "$work/search/pairs" "$work/search/pairs.jsonl"
  python make-model/teach.py "$teacher" "$work/search/pairs.jsonl" "$work/search/vectors.npy" 6 && touch "$work/search/taught"
}
job teach after "${pairs[@]}" pairs-sets -- taught
judged() { python make-model/rerank_data.py "$data" "$work/rerank" "$work"/search/found/part*.jsonl; }
job rerank-data after teach -- judged

# 2. the encoder, and what needs none
goes_on() {
  python make-model/generator.py "$start" "$work/start"
  clearhead pretrain --corpus "$corpus/*.jsonl.xz" --corpus "$work/everyday.jsonl" --model "$work/start" \
    --recipe make-model/recipes/last.toml --set train.minutes="$(python -c "print($minutes / 3)")" --out "$work/last"
  python make-model/pack.py "$work/last" "$box/encoder"
  mkdir -p "$box/encoder/skills"
  touch "$work/skills/done"
}
job encoder after everyday skill-data -- goes_on
job bert env MINUTES="$(left 900)" CUDA_MPS_CLIENT_PRIORITY=1 bash make-model/bert.sh "$corpus" "$data" "$work" "$box"
writers() { # the rest of the time, since the encoder has had the GPU before
  job translator env MINUTES="$(left 170)" bash make-model/translator.sh "$corpus" "$data" "$work" "$box"
  job gpt env MINUTES="$(left 300)" TAUGHT=1.5 bash make-model/gpt.sh "$corpus" "$data" "$work" "$box"
  wait
}
job writers after encoder -- writers

# 3. skills of the new encoder
for one in sentiment:high spam:capitals spam:plain entities:high part-of-speech:high inference:high; do
  job "skill-${one/:/-}" after encoder -- env TIME=1.7 bash make-model/skills.sh "$corpus" "$data" "$work" "$box" "$one"
done
asked() { MINUTES=$(left 180) bash make-model/questions.sh "$corpus" "$data" "$work" "$box" "$1"; }
for variant in B C; do
  job "questions-$variant" after encoder question-data -- asked "$variant"
done
searched() { bash make-model/search.sh "$corpus" "$data" "$work" "$box" "$(left 150)"; }
job search after encoder teach -- searched
reranked() { bash make-model/rerank.sh "$corpus" "$data" "$work" "$box" "$(left 180)"; }
job rerank after encoder rerank-data -- reranked
wait
