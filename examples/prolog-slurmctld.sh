#!/bin/bash
# slurm.conf: PrologSlurmctld=/etc/slurm/prolog-slurmctld.sh and PrologEpilogTimeout=90.
# Runs on the controller before a job of several nodes starts, as SlurmUser, whose key the nodes must accept. A fail
# drains the bad nodes and requeues the job (any exit code but 0 does); what could not be measured only speaks.
set -uo pipefail
[[ "${SLURM_JOB_NODELIST:-}" == *[,[]* ]] || exit 0  # one node: nothing to compare or to connect

# The interpreter of the jobs on the nodes.
python="${PREFLIGHT_PYTHON:-/opt/conda/bin/python}"
folder="${PREFLIGHT_REPORTS:-/var/log/preflight}/$SLURM_JOB_ID"
preflight run -q --hosts="$SLURM_JOB_NODELIST" --python="$python" --profile=quick --deadline=60 --report-dir="$folder"
code=$?
if [[ $code -eq 1 ]]; then
  bad=$(preflight report "$folder" --format=exclude)
  scontrol update nodename="$bad" state=drain reason="preflight: $folder"
  exit 1
fi
exit 0
