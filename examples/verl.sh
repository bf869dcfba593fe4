#!/bin/bash
# verl on several machines, behind a check. Every node runs this with NNODES, its own NODE_RANK, and the address of the
# node of rank 0 in HEAD_ADDR; words that follow are handed to the trainer. Rank 0 starts the head of Ray, waits for the
# others, and submits the trainer after go; with any verdict but pass or warn it ends with preflight's exit code.
set -euo pipefail

if [ "$NODE_RANK" -ne 0 ]; then
  for _ in $(seq 120); do # a second each, until the head listens
    (: > "/dev/tcp/${HEAD_ADDR:?}/6379") 2> /dev/null && break
    sleep 1
  done
  exec ray start --block --address="${HEAD_ADDR:?}:6379" # until the head is gone
fi

ray start --head --node-ip-address="${HEAD_ADDR:?}" --port=6379 --dashboard-host=127.0.0.1
trap 'ray stop' EXIT

python - "$NNODES" << 'END'
import sys, time
import ray
ray.init("auto", log_to_driver=False)
for _ in range(120):  # seconds; what has not come by then, the check tells
    if sum(node["Alive"] for node in ray.nodes()) >= int(sys.argv[1]):
        break
    time.sleep(1)
END
preflight run --hosts=ray --need="$NNODES" --profile="${PROFILE:-standard}"

ray job submit --address=http://127.0.0.1:8265 -- \
  python -m verl.trainer.main_ppo trainer.nnodes="$NNODES" trainer.n_gpus_per_node="${GPUS_PER_NODE:-8}" "$@"
