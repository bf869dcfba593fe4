"""How does a batch script that is rehearsed come to its nodes? A job with its own #SBATCH lines waits there for it."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterator

from preflight.job.measure.rehearsal.whole import SUBMITTED
from preflight.launch.cast import Script
from preflight.reach.transport.reach import last_line
from preflight.said import said
from preflight.said.errors import PreflightError

PATIENCE_SECONDS = 120.0  # until Slurm starts the job
COMMAND_SECONDS = 30.0
LOOK_SECONDS = 0.5
MORE_SECONDS = 120.0  # beside the deadline of the run, until the job is ended by Slurm
# Should we be killed, at whatever moment, the job ends with us: this one submits it, and outlives us for a moment.
SUBMIT = """
trap '' PIPE
job=$("$@") || exit
echo "$job" 2>/dev/null
while kill -0 "$0" 2>/dev/null; do sleep 0.5; done
until scancel "${job%%;*}"; do sleep 1; done
"""
# The batch shell waits for the node agent's file, which nobody else can make: it lies in a folder of our own user.
BODY = """
waited=0
while [ "$waited" -lt 600 ]; do
  for go in /dev/shm/preflight-*/go-"$SLURM_JOB_ID"; do
    if [ -O "$go" ]; then
      cd "${go%/*}" || exit 75
      folder=$PWD
      sh "$folder/start" >"$folder/out-$SLURM_JOB_ID" 2>"$folder/err-$SLURM_JOB_ID"
      echo $? >"$folder/code-$SLURM_JOB_ID"
      cd /
      while [ -d "$folder" ]; do sleep 0.2; done  # the end of this shell is the end of the job, and of our own step
      exit 0
    fi
  done
  sleep 0.2
  waited=$((waited + 1))
done
exit 75
"""


def waiting_script(script: Script) -> str:
    """The batch script that is submitted: the user's own first line and directives, and a wait in place of the rest."""
    first, *rest = script.text.splitlines()
    head = [first] if first.startswith("#!") else ["#!/bin/sh"]
    directives = []
    for line in ([] if first.startswith("#!") else [first]) + rest:
        if line.startswith("#SBATCH"):
            directives.append(line)
        elif line.strip() and not line.lstrip().startswith("#"):
            break  # sbatch reads none behind the first command
    return "\n".join([*head, *directives, BODY])


@contextlib.contextmanager
def submitted(script: Script, *, seconds: float) -> Iterator[None]:
    """A job of the script's own that runs on its nodes, as if we were inside of it; it is cancelled in the end.

    Raises PreflightError where Slurm refuses it, or does not start it in time.
    """
    if shutil.which("sbatch") is None:
        raise PreflightError("sbatch is not installed here: start preflight where Slurm's commands are")
    minutes = int((seconds + MORE_SECONDS) // 60) + 1
    words = ["--parsable", f"--time={minutes}", "--output=/dev/null", "--error=/dev/null", "--no-requeue"]
    before = dict(os.environ)
    watcher = subprocess.Popen(
        ["sh", "-c", SUBMIT, str(os.getpid()), "sbatch", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    job = _submitted(watcher, waiting_script(script))
    try:
        nodes = _nodes_of(job)
        os.environ |= {"SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": nodes, SUBMITTED: job}
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        with contextlib.suppress(PreflightError):
            _ask(["scancel", job])
        watcher.kill()
        watcher.wait(timeout=COMMAND_SECONDS)


def _submitted(watcher: subprocess.Popen[str], text: str) -> str:
    """The job that sbatch made of a script. Raises PreflightError with its last line."""
    assert watcher.stdin is not None
    assert watcher.stdout is not None
    assert watcher.stderr is not None
    with contextlib.suppress(BrokenPipeError):  # what has refused it does not read it
        watcher.stdin.write(text)
        watcher.stdin.close()
    with watcher.stdout, watcher.stderr:
        ready, _, _ = select.select([watcher.stdout], [], [], COMMAND_SECONDS)
        job = watcher.stdout.readline().split(";")[0].strip() if ready else ""
        if job:
            return job
        words = last_line(watcher.stderr.read(), "no output") if ready else ""
    watcher.kill()
    watcher.wait(timeout=COMMAND_SECONDS)
    raise PreflightError(f"sbatch: {words}" if ready else "sbatch does not answer: `scontrol ping`")


def _nodes_of(job: str) -> str:
    """The nodes of the job, once it runs."""
    end = time.monotonic() + PATIENCE_SECONDS
    shown = ""
    while time.monotonic() < end:
        shown = _ask(["scontrol", "--oneliner", "show", "job", job])
        state = re.search(r"\bJobState=(\S+)", shown)
        nodes = re.search(r"\bNodeList=(\S+)", shown)
        if state and state[1] == "RUNNING" and nodes:
            return nodes[1]
        if state and state[1] not in ("PENDING", "CONFIGURING", "RUNNING"):
            raise PreflightError(said("job {job} of Slurm ended before it began: {state}", job, state[1]))
        time.sleep(LOOK_SECONDS)
    reason = re.search(r"\bReason=(\S+)", shown)
    why = f" ({reason[1]})" if reason else ""
    raise PreflightError(
        said(
            "Slurm did not start job {job} in {PATIENCE_SECONDS:.0f} s{why}: `squeue --job={job} --start`",
            job,
            PATIENCE_SECONDS,
            why,
        )
    )


def _ask(words: list[str]) -> str:
    """What a command of Slurm prints. Raises PreflightError with its last line."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise PreflightError(said("{words} does not answer: `scontrol ping`", words[0])) from None
    if done.returncode:
        raise PreflightError(f"{words[0]}: {last_line(done.stderr, 'no output')}")
    return done.stdout
