#!/bin/bash
# A torchrun job behind a check: with any verdict but pass or warn the script ends there, with preflight's exit code.
set -euo pipefail
cd "$(dirname "$0")"

preflight run --hosts="${HOSTS:-node[1-2]}" --python="$(command -v python3)" --profile="${PROFILE:-standard}" --launch="$0"

torchrun --nnodes=1 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-endpoint=localhost:0 train.py
