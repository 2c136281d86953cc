#!/usr/bin/env bash
# A sweep over two Ray nodes on loopback, one of which is killed midway: nothing is lost.
#
#   tests/torture/ray_cluster.sh [PYTHON]     PYTHON has fairbandit[ray]; .venv/bin/python by default
#
# Starts two nodes and stops only what it started, by process id.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${1:-.venv/bin/python}
bin=$(cd "$(dirname "$python")" && pwd)
python=$bin/$(basename "$python")
work=$(mktemp -d)
pids=()

export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$work/token
export RAY_USAGE_STATS_ENABLED=0 RAY_ENABLE_UV_RUN_RUNTIME_ENV=0
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' > "$RAY_AUTH_TOKEN_PATH"
chmod 600 "$RAY_AUTH_TOKEN_PATH"

family() { # a process and all below it, children first
  local child
  for child in $(ps -o pid= --ppid "$1"); do family "$child"; done
  echo "$1"
}
end() {
  for pid in "${pids[@]}"; do
    for each in $(family "$pid"); do kill -KILL "$each" 2>/dev/null || true; done
  done
  rm -rf "$work"
}
trap end EXIT

node() { # name, address, further options: a node in the foreground of a process of ours
  local name=$1 address=$2
  shift 2
  "$bin/ray" start --block --node-ip-address="$address" --num-cpus=1 --disable-usage-stats \
    --object-store-memory=80000000 --include-log-monitor=false "$@" > "$work/$name.log" 2>&1 &
  pids+=($!)
}

node one 127.0.0.2 --head --port=6399 --include-dashboard=false --temp-dir="$work/ray"
one=${pids[0]}
sleep 12
node two 127.0.0.3 --address=127.0.0.2:6399
two=${pids[1]}
sleep 8
kill -0 "$one" && kill -0 "$two" || { cat "$work"/*.log; exit 1; }

sweep=(-m policy=oful seed=0,1,2,3,4,5 rounds=4000 replicas=4)
(cd "$work" && RAY_ADDRESS=127.0.0.2:6399 "$python" -m fairbandit.cli.main "${sweep[@]}" \
  hydra/launcher=ray_cluster hydra.sweep.dir=swept > sweep.log 2>&1) &
driver=$!
pids+=("$driver")

until [ "$(find "$work/swept" -name summary.json 2>/dev/null | wc -l)" -ge 2 ]; do
  kill -0 "$driver" || { cat "$work/sweep.log"; exit 1; }
  sleep 0.2
done
echo "killing node two, with $(find "$work/swept" -name summary.json | wc -l) of 6 jobs finished"
for each in $(family "$two"); do kill -KILL "$each" 2>/dev/null || true; done
wait "$driver" || { cat "$work/sweep.log"; exit 1; }
tail -14 "$work/sweep.log"

(cd "$work" && "$python" -m fairbandit.cli.main "${sweep[@]}" hydra.sweep.dir=alone > alone.log)
"$python" - "$work" <<'PY'
import sys
from pathlib import Path

from tests.killing import leftovers, outcome

work = Path(sys.argv[1])
assert outcome(work / "swept") == outcome(work / "alone")
assert not leftovers(work / "swept"), leftovers(work / "swept")
print("nothing lost: the same bytes and summaries as in one process")
PY
