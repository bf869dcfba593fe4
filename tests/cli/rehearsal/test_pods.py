"""What does `preflight rehearse k8s` write and print, and which exit code has what the logs tell?"""

from __future__ import annotations

import pytest
import yaml

from preflight.cli.rehearsal.pods import rehearse, verdict_of
from preflight.facts.results import Rehearsal
from preflight.facts.results.rehearsal import Cause
from preflight.judge.ledger.findings import Verdict
from preflight.said.errors import UsageError

JOB = """kind: Job
apiVersion: batch/v1
metadata: {name: llama, namespace: train}
spec: {template: {spec: {containers: [{name: x, image: y, command: [torchrun, train.py]}]}}}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a job."""
    (tmp_path / "job.yaml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(**words):
    """The verb with these words."""
    return rehearse("job.yaml", **{"out": None, "logs": None, "seconds": None, **words})


def test_the_manifest_is_written_and_what_follows_is_said(here, capsys):
    """In the order in which it is typed."""
    assert run() == 0
    documents = list(yaml.safe_load_all((here / "job.rehearsal.yaml").read_text()))
    assert [document["kind"] for document in documents] == ["ConfigMap", "Job"]
    printed = capsys.readouterr().out
    commands = [line.split()[1] for line in printed.splitlines() if line.startswith("  kubectl ")]
    assert commands == ["apply", "wait", "logs", "delete"]
    assert "--namespace=train --selector=preflight-rehearsal=llama" in printed


def test_on_the_standard_output_nothing_stands_beside_it(here, capsys):
    """So that it can be piped into kubectl."""
    assert run(out="-") == 0
    written = capsys.readouterr()
    assert len(list(yaml.safe_load_all(written.out))) == 2
    assert "kubectl apply" in written.err


def test_files_that_cannot_be_rehearsed_are_errors_of_use(here):
    """No file, no YAML, no log."""
    with pytest.raises(UsageError, match=r"no file other.yaml"):
        rehearse("other.yaml", out=None, logs=None, seconds=None)
    (here / "empty.log").write_text("")
    with pytest.raises(UsageError, match=r"empty.log is empty"):
        run(logs="empty.log")
    (here / "job.yaml").write_text("{")
    with pytest.raises(UsageError, match=r"rehearse k8s: job.yaml"):
        run()


def test_nothing_passes_that_was_not_measured():
    """A fault is a fail, a part that was not seen an error."""
    whole = Rehearsal(scripts=(), ranks=(), causes=())
    fault, unseen = (Cause(about="ranks", nodes=("a",), message="x", is_unmeasured=each) for each in (False, True))
    assert verdict_of(whole, has_trained=True) is Verdict.PASS
    assert verdict_of(whole, has_trained=False) is Verdict.ERROR
    assert verdict_of(Rehearsal(scripts=(), ranks=(), causes=(unseen,)), has_trained=True) is Verdict.ERROR
    assert verdict_of(Rehearsal(scripts=(), ranks=(), causes=(fault, unseen)), has_trained=True) is Verdict.FAIL
