"""What can a person, a program or a chat be shown of a run? Every output of a report, by what draws it."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from preflight.cli import main
from preflight.diagnose import diagnose
from preflight.diagnose.hanging.stuck import compare
from preflight.facts import decode
from preflight.facts.decode import Document
from preflight.job.options.options import Options
from preflight.judge.ledger.choice import Choice
from preflight.launch.launchers import writable
from preflight.launch.write import write_files
from preflight.report import FORMATS
from preflight.report.compare import Snapshot
from preflight.report.document import RunReport
from preflight.report.files import plain_ascii
from preflight.report.formats.annotations import github_text, sarif_text
from preflight.report.formats.commands import lines
from preflight.report.formats.diagnosis import diagnosis_document, diagnosis_text
from preflight.report.formats.hanging import hanging_document, hanging_text
from preflight.report.formats.hostlists import CHOICES, files_of_choice
from preflight.report.formats.notice import BODIES, notice
from preflight.report.formats.rehearsal import rehearsal_table
from preflight.report.formats.table import bench_table
from preflight.report.formats.text import TELLING
from preflight.report.formats.training import training_table
from preflight.report.html.trend import trend_html
from preflight.report.language import chosen
from preflight.report.material import Material
from preflight.report.printable import printable
from preflight.report.trend import trend, trend_lines
from preflight.run.reuse import archive as archives
from preflight.run.reuse import certificates
from preflight.said.errors import UsageError
from preflight.testing import healthy
from tests.diagnose.hanging.test_stuck import IN_TORCH, LOADER, STEP, rank

Output = Callable[[Material], str]
CHINESE = chosen("zh", {})
MOST = 4096  # letters that a node may call anything by


def choice(report: RunReport) -> Choice:
    """Some node is chosen, all others are left out for a reason that a node can word."""
    first, *others = report.nodes
    return Choice(1, (first,), dict.fromkeys(others, report.findings[0].message))


def words(report: RunReport) -> str:
    """What a node said."""
    return report.findings[0].message


def stuck(report: RunReport) -> object:
    """Ranks of the run's nodes that hang, of which one says what it likes."""
    first, *others = report.nodes
    said = rank(1, words(report), LOADER, STEP, command=words(report))
    return compare({first: (rank(0, IN_TORCH, STEP), said), **{name: (rank(2, IN_TORCH, STEP),) for name in others}})


def looked_back(material: Material) -> object:
    """The run after one like it, in folders of such names."""
    runs = [Snapshot(material.report, material.facts), Snapshot(material.report, {})]
    return trend(runs, [words(material.report)] * 2, [words(material.report)])


def as_json(document: object) -> str:
    """A document as every --json prints it."""
    return plain_ascii(json.dumps(document, indent=1, allow_nan=False))


def typed(*words: str) -> str:
    """What a command line shows, on both streams."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        main.run(words)
    return shown.getvalue()


def listed(material: Material) -> str:
    """The list of the runs in a folder, this one among them."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "run").mkdir()
        (Path(folder) / "run" / "report.json").write_text(FORMATS["json"](material), encoding="ascii")
        return typed("report", "--list", folder)


def launched(material: Material) -> str:
    """Every launch file for nodes that call all they have so, or why there is none, as the command shows it."""
    text = words(material.report)[:MOST]
    run = healthy(2).broken_interface("node1", name=text).broken(("node1",), "identity", hostname=text, fqdn=text)
    made = []
    for launcher in writable():
        try:
            made += write_files(launcher, run.with_variables(NCCL_DEBUG=text).cluster, folder="/f").values()
        except UsageError as error:
            made.append(printable(str(error), keep_newlines=True))
    return "".join(made)


def certified(material: Material) -> str:
    """The certificate of a run of nodes that say so."""
    run = healthy(2).with_variables(NCCL_DEBUG=words(material.report)[:MOST])
    documents = {
        name: Document(decode.SCHEMA, name, 0, "10.0.0.1", 1, msgspec.to_builtins(held), {})
        for name, held in run.subjects.items()
    }
    for document in documents.values():
        document.subjects.setdefault("clock", {"offset_seconds": 0.0, "uncertainty_seconds": 0.0})
    options = Options(run_id=words(material.report), command=(words(material.report),))
    at = datetime(2030, 1, 2, tzinfo=timezone.utc)
    measured = {
        "bench": material.report.bench,
        "training": material.report.training,
        "paths": {words(material.report): 1.0},
    }
    made = certificates.made(options, documents, (words(material.report),), at=at, **measured)
    with tempfile.TemporaryDirectory() as folder:
        archive = archives.Archive.opened(Path(folder) / "state")
        asked = certificates.Asked(options, ())
        archive.keep(asked, made)
        return archive.path(asked).read_text(encoding="utf-8")


OUTPUTS: dict[str, Output] = {
    **{f"--format {name}": draw for name, draw in FORMATS.items()},
    **{
        f"terminal, {name}": lambda material, tell=tell: tell(material.report, directory="d", width=100, colour=False)
        for name, tell in TELLING.items()
    },
    "terminal, Chinese": lambda material: TELLING["summary"](
        material.report, directory="d", width=100, colour=False, language=CHINESE
    ),
    "commands": lambda material: "\n".join(lines(material.report, material.report.findings, most=9)),
    "GitHub's annotations": lambda material: github_text(material.report.findings),
    "SARIF": lambda material: sarif_text(material.report.findings),
    "table of the benchmark": lambda material: bench_table(material.report.bench) if material.report.bench else "",
    "table of the training": lambda material: (
        training_table(material.report.training) if material.report.training else ""
    ),
    "table of the rehearsal": lambda material: (
        rehearsal_table(material.report.rehearsal) if material.report.rehearsal else ""
    ),
    **{
        f"--need --format {name}": lambda material, draw=draw: draw(material.report, choice(material.report))
        for name, draw in CHOICES.items()
    },
    "files of --need": lambda material: "".join(
        files_of_choice(msgspec.structs.replace(material.report, choice=choice(material.report))).values()
    ),
    **{
        f"--notify {host}": lambda material, host=host: as_json(notice(material.report, host))
        for host in (*BODIES, "hooks.example.com")
    },
    "--trend": lambda material: "\n".join(trend_lines(looked_back(material))),
    "--trend page": lambda material: trend_html(looked_back(material)),
    "diagnosis": lambda material: diagnosis_text(diagnose([f"[rank0]: RuntimeError: {words(material.report)}"])),
    "diagnosis, JSON": lambda material: as_json(
        diagnosis_document(diagnose([f"[rank0]: RuntimeError: {words(material.report)}"]))
    ),
    "explain": lambda material: typed("explain", words(material.report)),
    "report --list": listed,
    "launch write": launched,
    "certificate": certified,
    "hanging": lambda material: hanging_text(stuck(material.report), {"c": words(material.report)}),
    "hanging, JSON": lambda material: as_json(hanging_document(stuck(material.report), {"c": words(material.report)})),
}
