"""How is a manifest rehearsed from the command line: written here, applied by its user, judged by its pods' logs?"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from preflight.cli.rehearse import SECONDS
from preflight.facts.results import Rehearsal
from preflight.job.measure.rehearsal.judged import judged
from preflight.job.start.rehearsal.pods import carried, heard, script_of_manifest
from preflight.judge.ledger.findings import EXIT_CODES, Verdict
from preflight.judge.views.rehearsal import CHECKS
from preflight.launch.cast import Cast, read_scripts
from preflight.launch.manifests.dump import yaml_of
from preflight.launch.manifests.rehearsal import LABEL, Rehearsing, rehearsing
from preflight.report.formats.rehearsal import rehearsal_table
from preflight.report.printable import printable
from preflight.said import said
from preflight.said.errors import UsageError
from preflight.said.redact import without_secrets

K8S = "k8s"  # the word that stands before a manifest
AT_ONCE = 512  # of the pods whose logs kubectl follows


def rehearse(name: str, *, out: str | None, logs: str | None, seconds: float | None) -> int:
    """Write the manifest that rehearses, or judge what its pods printed: the exit code."""
    if not Path(name).is_file():
        raise UsageError(said("rehearse k8s: no file {name}", name))
    return judge_logs(name, logs) if logs else write(name, out or "", seconds or SECONDS)


def write(name: str, out: str, seconds: float) -> int:
    """Write the manifest, and say how it is applied and what becomes of it."""
    script = script_of_manifest(name)
    try:
        documents = list(yaml.safe_load_all(script.text))
    except yaml.YAMLError as error:
        raise UsageError(said("rehearse k8s: {name}: {error}", name, " ".join(str(error).split()))) from None
    programs = Cast({}, (), read_scripts([script]).plans).programs
    made = rehearsing(documents, carried(programs, seconds=seconds), seconds=seconds, name=name)
    target = Path(out or f"{Path(name).stem}.rehearsal.yaml")
    text = yaml_of(made.documents)
    if out == "-":
        print(text, end="")
    else:
        target.write_text(text, encoding="utf-8")
    for line in how(made, name, str(target)):
        print(printable(line), file=sys.stderr if out == "-" else sys.stdout)
    return 0


def how(made: Rehearsing, name: str, target: str) -> list[str]:
    """What was written, and the commands that follow."""
    jobs = ", ".join(f"{d['kind']} {d['metadata']['name']}" for d in made.documents[1:])
    space = f" --namespace={made.namespace}" if made.namespace else ""
    pods = f"{space} --selector={LABEL}={made.name}"
    follow = f"--follow --all-containers --prefix --tail=-1 --max-log-requests={AT_ONCE}"
    return [
        said("{target}: {jobs}", target, jobs),
        "  every command of its pods runs for real: only the training program is exchanged for the reference job",
        *(said("  not in it, and must be there already: {kind}", kind) for kind in made.left_out),
        f"  kubectl apply --filename={target}",
        f"  kubectl wait{pods} pod --for=condition=Ready --timeout={made.seconds}s",
        f"  kubectl logs{pods} {follow} > rehearsal.log",
        f"  preflight rehearse k8s {name} --logs=rehearsal.log",
        f"  kubectl delete --filename={target}",
    ]


def judge_logs(name: str, logs: str) -> int:
    """Say what the pods' logs show, as of any rehearsal."""
    script = script_of_manifest(name)
    try:
        text = sys.stdin.read() if logs == "-" else Path(logs).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(said("rehearse k8s: {logs}: {strerror}", logs, error.strerror)) from None
    story, cast = heard(text.splitlines(), script, read_scripts([script]).plans)
    if not story.nodes:
        raise UsageError(said("rehearse k8s: {logs} is empty: `kubectl logs --prefix` of the pods is wanted", logs))
    backend = next((rank.loaded.nccl and "nccl" for rank in story.ranks if rank.loaded), "") or "gloo"
    result = judged(story, cast, {}, backend=backend)
    verdict = verdict_of(result, has_trained=story.has_trained)
    print(printable(f"{'NO-GO' if EXIT_CODES[verdict] else 'GO'}  {name}"))
    for cause in result.causes:
        word = "ERROR" if cause.is_unmeasured else "WARN" if cause.is_advisory else "FAIL"
        print(printable(without_secrets(f"{word:5}  {CHECKS[cause.about]}: {', '.join(cause.nodes)}: {cause.message}")))
        if cause.fix:
            print(printable(without_secrets(f"       Fix: {cause.fix}")))
    if verdict is Verdict.ERROR and not any(cause.is_unmeasured for cause in result.causes):
        print(printable(said("ERROR  not measured: not every rank of {name} came to the end of its steps", name)))
    print(rehearsal_table(result), end="")
    return EXIT_CODES[verdict]


def verdict_of(result: Rehearsal, *, has_trained: bool) -> Verdict:
    """FAIL where something does not hold, ERROR where not all was measured."""
    if any(not cause.is_advisory and not cause.is_unmeasured for cause in result.causes):
        return Verdict.FAIL
    is_whole = has_trained and not any(cause.is_unmeasured for cause in result.causes)
    return Verdict.PASS if is_whole else Verdict.ERROR
