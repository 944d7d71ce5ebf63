#!/bin/sh
# Once a receiver is repaired: make sure of it, send again what was discarded, and wait until nothing is on its way.
#
#   examples/replay.sh ENDPOINT_ID [SINCE]
set -eu

if [ $# -eq 0 ]; then
  echo 'usage: replay.sh ENDPOINT_ID [SINCE], where SINCE is an instant, or 2d for two days ago' >&2
  exit 2
fi
endpoint=$1
since=${2:-2d}
patience=${PATIENCE_S:-600}

tidings endpoints test "$endpoint"  # exit code 1 where the receiver still fails: then nothing is sent
tidings deliveries replay --endpoint "$endpoint" --since "$since" --dry-run
tidings deliveries replay --endpoint "$endpoint" --since "$since"

under_way() {
  tidings deliveries list --endpoint "$endpoint" --since "$since" \
    --state pending --state running --state retryable --limit 1 --jsonl
}

while [ -n "$(under_way)" ]; do
  [ "$patience" -gt 0 ] || { echo 'replay.sh: some are still under way' >&2; exit 1; }
  patience=$((patience - 1))
  sleep 1
done
tidings deliveries list --endpoint "$endpoint" --since "$since"
