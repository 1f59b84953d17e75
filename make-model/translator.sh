#!/usr/bin/env bash
# The translator in the box: de→en, fr→en, en→de and en→fr by one Transformer of 8 MiB.
# translator.sh CORPUS DATA WORK BUILTIN [VARIANT]; CORPUS is not read. Variants: `agreement` (the default: every pair is
# read twice), `plain` (once), `deep` (another layer in the place of some words). One GPU: 8 minutes of training, 3 for the
# rest. For a rehearsal MINUTES=1 trains so long, LIMIT=500 keeps so many rows of each file.
source "$(dirname "$0")/common.sh" "$@"
variant=${5:-agreement} minutes=${MINUTES:-8} limit=${LIMIT:-}
work=$work/translator-$variant folder=$builtin/translator
mkdir -p "$work"

# 1. pairs
if [ ! -f "$work/data/done" ]; then
  run python make-model/translation_data.py "$data" "$work/data"
  if [ -n "$limit" ]; then
    for file in "$work"/data/*.tsv "$work"/data/test/*.tsv; do
      shuf -n "$limit" --random-source=<(yes) "$file" >"$work/some" && mv "$work/some" "$file"
    done
  fi
  touch "$work/data/done"
fi

# 2. training, with the vocabulary before it
sizes=(--set vocabulary=10000 --set model.encoder_layers=4 --set model.decoder_layers=2)
case $variant in
agreement) how=("${sizes[@]}" --set agreement=5) ;;
plain) how=("${sizes[@]}") ;;
deep) how=(--set vocabulary=7500 --set model.encoder_layers=5 --set model.decoder_layers=2 --set agreement=5) ;;
*) echo "there is no variant $variant; choose agreement, plain or deep" >&2 && exit 2 ;;
esac
run clearhead finetune translation --model transformer-tiny --data "$work/data/train.tsv" --dev "$work/data/dev.tsv" \
  --out "$work/model" --set 'directions=["de-en","fr-en","en-de","en-fr"]' "${how[@]}" --set model.dropout=0.1 \
  --set tokens=24576 --set train.minutes="$minutes" --set train.learning_rate=1.5e-3 --set train.warmup=0.08 \
  --set train.schedule=linear --set train.every.average=1

# 3. int8, figures, card
run python make-model/pack.py "$work/model" "$folder"
for set in tatoeba multi30k; do
  for direction in de-en fr-en en-de en-fr; do
    measured "$set $direction" clearhead evaluate translation --model "$folder" --data "$work/data/test/$set.$direction.tsv"
  done
done
run python make-model/translator_card.py "$work/model" "$work/figures.jsonl" "$folder"
