#!/usr/bin/env bash
# One machine of a training run. Start it on every machine with the same words; it starts again what is lost.
#
#   RENDEZVOUS=node1:29400 MACHINES=2 deploy/training/machine.sh pretrain --corpus text.jsonl.xz --out /shared/my-bert
#
# RENDEZVOUS  the machine where all meet, and a free port there
# MACHINES    how many there are
# RANKS       processes on each: "gpu" (the default) for one on every GPU, or a number
# JOB         a name for this run, the same on all machines, another for every run
# RESTARTS    how often torchrun starts lost ranks again, before this script starts torchrun again
# STARTS      how often it does so before it gives up; a start that lasted an hour does not count
# PAUSE       seconds before it does
set -u

: "${RENDEZVOUS:?name the machine where all meet, as host:port}"
: "${MACHINES:?say how many machines there are}"
RANKS=${RANKS:-gpu} JOB=${JOB:-clearhead} RESTARTS=${RESTARTS:-3} STARTS=${STARTS:-5} PAUSE=${PAUSE:-5}

# Each attempt has a store of its own. Without this, a machine that was started again waits for an address which
# torchrun tells only once, and all others wait for it.
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1

for ((start = 1; start <= STARTS; start++)); do
  began=$SECONDS
  torchrun --nnodes "$MACHINES" --nproc-per-node "$RANKS" --max-restarts "$RESTARTS" --monitor-interval 1 \
    --rdzv-backend c10d --rdzv-endpoint "$RENDEZVOUS" --rdzv-id "$JOB" -m clearhead "$@" &
  agent=$!
  # who stops this script stops the run, which saves first
  trap 'kill -TERM "$agent"; wait "$agent"; exit 143' TERM INT
  wait "$agent" && exit 0
  ((SECONDS - began < 3600)) || start=0
  echo "machine.sh: torchrun ended on this machine (start $start of $STARTS); again in $PAUSE seconds" >&2
  sleep "$PAUSE"
done
exit 1
