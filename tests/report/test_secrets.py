"""Is no secret in any output of a run, wherever a node, a log or a command line held it?"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from types import SimpleNamespace

import msgspec
import pytest

from preflight.diagnose import diagnose
from preflight.diagnose.hanging.stuck import compare
from preflight.facts.decode import SCHEMA, Document
from preflight.facts.results import JobFailure
from preflight.job.options.options import Options
from preflight.judge.ledger.findings import Finding, Verdict
from preflight.judge.ledger.ledger import Ledger
from preflight.launch.launchers import writable
from preflight.launch.write import write_files
from preflight.report.document import NodeInfo
from preflight.report.formats.diagnosis import diagnosis_document, diagnosis_text
from preflight.report.formats.hanging import hanging_document, hanging_text
from preflight.report.material import Material
from preflight.run import folder, history
from preflight.run.reuse import certificates
from preflight.run.source import Measurements
from preflight.testing import healthy
from preflight.testing.fake import FakeRun
from tests.diagnose.hanging.test_stuck import IN_TORCH, LOADER, STEP, rank
from tests.report.outputs import OUTPUTS, as_json
from tests.said.test_redact import SECRETS

CANARIES = [
    (text.replace("xyzzysecret", f"xyzzy{number:03}secret"), secret.replace("xyzzysecret", f"xyzzy{number:03}secret"))
    for number, (text, secret) in enumerate(SECRETS)
]
NAMES = ("node1", "node2")


@pytest.fixture(scope="module")
def material():
    """A run in whose every word of others stand all of them: a check's message and fix, notes, logs, jobs, commands."""
    ledger = Ledger()
    for number, (text, _) in enumerate(CANARIES):
        ledger.expect(f"a.c{number}", NAMES)
        verdict = (Verdict.FAIL, Verdict.WARN, Verdict.ERROR, Verdict.SKIP)[number % 4]
        ledger.record(Finding(f"a.c{number}", verdict, NAMES, f"said {text} here", f"`try {text}`"))
    everything = "\n".join(text for text, _ in CANARIES)
    failed = JobFailure(
        nodes=NAMES[:1], is_proven=True, message=everything, cause=everything, last_lines=tuple(everything.splitlines())
    )
    measured = Measurements(
        bench=msgspec.structs.replace(healthy().measured_bench, not_measured=everything),
        training=msgspec.structs.replace(healthy().measured_training, failure=failed, not_measured=everything),
    )
    source = SimpleNamespace(
        started="2030-01-02T03:04:05+00:00",
        seconds=1.0,
        node_infos=lambda: {name: NodeInfo(host=name, address="10.0.0.1", reached=True) for name in NAMES},
        notes=[text for text, _ in CANARIES],
        stage_seconds={},
    )
    options = Options(run_id="x", command=("preflight", "run", *(text for text, _ in CANARIES)))
    report = folder._report(source, ledger, options, measured, finished=True, verdict=Verdict.FAIL, exit_code=1)
    return Material(report, {name: {"torch": "2"} for name in NAMES}, {"train-0.log": folder.harmless(everything)})


def leaked(shown: str) -> list[str]:
    """The canaries of which the secret stands there."""
    return [text for text, secret in CANARIES if secret in shown]


def test_there_are_enough_of_them():
    """Ways in which people write secrets down."""
    assert len(CANARIES) >= 68


@pytest.mark.parametrize("name", OUTPUTS)
def test_no_output_holds_a_secret(material, name):
    """Of all of them none, in any format."""
    assert leaked(OUTPUTS[name](material)) == []


def test_neither_the_list_of_runs_nor_a_certificate_holds_a_secret(material, tmp_path):
    """What is kept of runs beside their reports, of nodes that have them all in their environment."""
    run = healthy(2).with_variables(**{f"NAME_{number}": text for number, (text, _) in enumerate(CANARIES)})
    documents = {name: document(run, name) for name in run.names}
    report = tmp_path / "run"
    report.mkdir()
    (report / "report.json").write_text(OUTPUTS["--format json"](material))
    options = Options(run_id="x", report_dir=report, command=tuple(text for text, _ in CANARIES))
    bench, training = material.report.bench, material.report.training
    at = datetime(2030, 1, 2, tzinfo=timezone.utc)
    certificate = certificates.made(options, documents, ("a.b",), bench=bench, training=training, paths={}, at=at)
    assert leaked(history.list_text(tmp_path) + msgspec.json.encode(certificate).decode()) == []
    assert "2030-01-02" in history.list_text(tmp_path)


@pytest.mark.parametrize("launcher", writable())
def test_no_launch_file_that_is_written_holds_a_secret_of_a_node(launcher):
    """What stands in the environment of the nodes is theirs."""
    run = healthy(2).with_variables(**{f"NAME_{number}": text for number, (text, _) in enumerate(CANARIES)})
    assert leaked("".join(write_files(launcher, run.cluster, folder="/f").values())) == []


def document(run: FakeRun, name: str) -> Document:
    """The facts of a node as they are stored."""
    subjects = {subject: msgspec.to_builtins(facts) for subject, facts in run.subjects[name].items()}
    subjects.setdefault("clock", {"offset_seconds": 0.0, "uncertainty_seconds": 0.0})
    return Document(SCHEMA, name, 0, "10.0.0.1", 1, json.loads(json.dumps(subjects)), {})


def test_no_log_that_is_diagnosed_shows_a_secret():
    """Neither the evidence nor the document."""
    found = diagnose(f"[rank0]: RuntimeError: NCCL error {text}" for text, _ in CANARIES if "\n" not in text)
    assert leaked(diagnosis_text(found) + as_json(diagnosis_document(found))) == []


def test_no_command_of_a_job_that_hangs_shows_a_secret():
    """What a rank was started with is seen by everybody on its node, and need not be in a report."""
    ranks = tuple(
        rank(number, IN_TORCH if number else LOADER, STEP, command=text)
        for number, (text, _) in enumerate(CANARIES)
        if "\n" not in text
    )
    stuck = compare({"node1": ranks})
    assert leaked(hanging_text(stuck, {"c": CANARIES[0][0]}) + as_json(hanging_document(stuck, {}))) == []
