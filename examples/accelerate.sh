#!/bin/bash
# An accelerate job behind a check of the nodes and of the very YAML that it starts with.
set -euo pipefail
cd "$(dirname "$0")"

preflight launch check accelerate.yaml
preflight run --hosts="${HOSTS:-node[1-2]}" --python="$(command -v python3)" --profile="${PROFILE:-standard}"

accelerate launch --config_file accelerate.yaml train.py
