# What the steps of `make model` share: NAME.sh CORPUS DATA [WORK [BUILTIN]], sourced by each of them.
# CORPUS holds the pre-training text (*.jsonl.xz), DATA the unpacked public sets, WORK what is made on the way, BUILTIN the
# folder of the models that it comes to, one in each folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
corpus=$1 data=$2 work=${3:-scratch/model} builtin=${4:-src/clearhead/builtin}
encoder=$builtin/encoder
# without an installed command, as on a machine that only lends its GPU
command -v python >/dev/null || python() { python3 "$@"; }
command -v clearhead >/dev/null || clearhead() { PYTHONPATH=src python -m clearhead "$@"; }
export PYTHONPATH=src
mkdir -p "$work"

run() { echo "+ $*"; "$@"; }
measured() { # name, command…: its figures go to figures.jsonl, with the command as anybody would type it
  local name=$1
  shift
  local told=$*
  told=${told//"$builtin/"/builtin:} told=${told//"$data"/DATA} told=${told//"$work"/WORK}
  run "$@" --json | tee >(cat >&2) | grep '^{' | python make-model/figures.py "$name" "$told" >>"$work/figures.jsonl"
}
