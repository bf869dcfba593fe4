"""What does each verb of the command line do, once its options are known?"""

from __future__ import annotations

import ast
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from preflight import history, hosts, stored
from preflight.arguments import BENCH_OPTIONS, OPTIONS, Chosen, canonical
from preflight.asked import options_from
from preflight.errors import UsageError
from preflight.facts import decode
from preflight.facts.cluster import Cluster
from preflight.plugin import checks_folder
from preflight.report import FORMATS
from preflight.report.changes import change_lines, heading
from preflight.report.compare import changes
from preflight.report.files import print_json
from preflight.report.json import read_json
from preflight.report.material import Material
from preflight.report.nagios import nagios_code
from preflight.report.printable import printable
from preflight.report.run import RunReport, to_document
from preflight.report.table import bench_table
from preflight.report.text import TELLING, headline
from preflight.report.training import training_table
from preflight.reporting import dry_run_text
from preflight.run import Run

PYTEST_INI = Path(__file__).parent / "pytest.ini"
PYTEST_WORDS = (
    "-pno:cacheprovider",
    "-ppreflight.plugin",
    "--import-mode=importlib",
    "-qq",
    "--no-header",
    "-Wignore::pytest.PytestAssertRewriteWarning",
    "-oconsole_output_style=classic",
)

MOST_COLUMNS = 4  # nodes side by side; more are told by value


def run_checks(chosen: Chosen, *, subjects: str = "", section: str = "", extra: Sequence[str] = ()) -> int:
    """The checks through pytest, away from whatever configuration and plugins lie around here."""
    import pytest

    options = options_from(chosen, ["preflight", *sys.argv[1:]])  # usage errors in our own words, before pytest starts
    if options.from_run is None:
        hosts.parse_hosts(options.hosts)
    folder = options.folder.absolute()
    words = ["-c", str(PYTEST_INI), "--rootdir", str(checks_folder()), *PYTEST_WORDS, *_forwarded(chosen)]
    words += [f"{canonical('report-dir')}={folder}", f"--preflight-subjects={subjects}"]
    words += [f"--preflight-tells={tells(chosen.values)}", f"--preflight-run-id={options.run_id}"]
    if chosen["hosts"] is None and chosen["from"] is None:
        words += [f"{canonical('hosts')}=local"]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    os.environ.pop("PYTEST_PLUGINS", None)
    code = int(pytest.main([*words, *extra, str(checks_folder())]))
    if section and not chosen["dry_run"] and (folder / "report.json").is_file():
        _print_section(read_json(folder / "report.json"), section, chosen["json"])
    elif chosen["json"] and (folder / "report.json").is_file():
        print_json(to_document(read_json(folder / "report.json")), chosen["json"])
    return code


def tells(chosen: Mapping[str, Any]) -> str:
    """How much is told: all checks with -v, one line with -q."""
    return "line" if chosen.get("quiet") else "checks" if chosen.get("verbose") else "summary"


def _forwarded(chosen: Chosen) -> Iterator[str]:
    """The options again, under the names that no plugin of the user's can have."""
    for name, attributes in {**OPTIONS, **BENCH_OPTIONS}.items():
        value = chosen[name.replace("-", "_")]
        if name in {"json", "report-dir"} or value in (None, False, [], ""):
            continue
        if attributes.get("action") == "store_true":
            yield canonical(name)
        elif isinstance(value, list):
            yield from (f"{canonical(name)}={one}" for one in value)
        else:
            yield f"{canonical(name)}={value}"


def _print_section(report: RunReport, section: str, target: str | None) -> None:
    if target:
        print_json(to_document(report)[section], target)
    elif section == "bench" and report.bench is not None:
        print(bench_table(report.bench))
    elif section == "training" and report.training is not None:
        print(training_table(report.training))


def show_facts(chosen: Chosen) -> int:
    """Collect and print the facts of every node; 3 when one could not be reached."""
    options = options_from(chosen, ["preflight", *sys.argv[1:]])
    run = Run(options, hosts.parse_hosts(options.hosts))
    if chosen["dry_run"]:
        print(dry_run_text(options, run.hosts))
        return 0
    try:
        run.open()
    finally:
        run.close()
    if chosen["json"]:
        documents = {name: json.loads(decode.encode(document)) for name, document in run.documents.items()}
        print_json(documents, chosen["json"])
    else:
        print(_facts_table(run.cluster))
    for name, reason in run.failures.items():
        print(f"{name}: not reached: {printable(reason)}", file=sys.stderr)
    return 3 if run.failures else 0


def _facts_table(cluster: Cluster) -> str:
    """A column for each of a few nodes; of many, each value once with the nodes that have it."""
    from tabulate import tabulate

    from preflight.report.facts import compared, told

    facts = {node.name: {title: printable(text) for title, text in told(node).items()} for node in cluster}
    rows, nowhere = [], []
    for row in compared(facts):
        title = f"{row.title} *" if row.differs else row.title
        if all(value.startswith("(") for value, _ in row.values):
            nowhere.append(f"{row.title} {row.values[0][0]}")
        elif len(facts) <= MOST_COLUMNS:
            rows.append([title, *(facts[name][row.title] for name in facts)])
        elif row.is_own and len(row.values) > MOST_COLUMNS:
            rows.append([title, "each its own (--json tells)", f"all {len(facts)}"])
        else:
            of_nodes = [
                (value, f"all {len(facts)}" if len(names) == len(facts) else hosts.fold(names))
                for value, names in row.values
            ]
            rows += [[title if i == 0 else "", *pair] for i, pair in enumerate(of_nodes)]
    names = list(facts) if len(facts) <= MOST_COLUMNS else ["value", "nodes"]
    widths = max((shutil.get_terminal_size((120, 24)).columns - 26) // max(len(names), 1), 18)
    table = tabulate(
        rows, headers=["fact (* differs)", *names], disable_numparse=True, maxcolwidths=[None, *[widths] * len(names)]
    )
    return f"{table}\n\ntold by no node: {'; '.join(nowhere)}" if nowhere else str(table)


def show_report(
    folder: Path, target: str | None, wanted: str = "text", earlier: Path | None = None, how: str = "summary"
) -> int:
    """A finished run in the format asked for, with the exit code it had; as nagios with that of its state.

    With an earlier run beside it, also what has changed since.
    """
    if wanted not in ("text", *FORMATS):
        raise UsageError(f"report: --format {wanted!r} is none of text, {', '.join(FORMATS)}")
    report = read_json(folder / "report.json" if folder.is_dir() else folder)
    if earlier is not None:
        report = msgspec.structs.replace(report, changes=changes(stored.snapshot(earlier), stored.snapshot(folder)))
    if target:
        print_json(to_document(report), target)
    elif wanted != "text":
        material = stored.material(folder, report) if wanted == "html" else Material(report)
        sys.stdout.flush()
        sys.stdout.buffer.write(FORMATS[wanted](material).encode("utf-8"))  # UTF-8 wherever it is piped to
        if wanted == "nagios":
            return nagios_code(report)
    elif earlier is not None and report.changes is not None:
        print("\n".join([headline(report), heading(report.changes), "", *change_lines(report.changes, most=1000)]))
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        print(TELLING[how](report, directory=str(folder), width=width), end="")
    return report.exit_code


def show_history(folder: Path, kept: str | None) -> int:
    """The runs in a folder as a list; with `kept` all but so many of the newest are deleted first."""
    if kept is not None:
        if not kept.isascii() or not kept.isdigit() or len(kept) > 6:
            raise UsageError(f"report: --keep {kept!r}: wanted a number of runs")
        print("\n".join(history.keep(folder, int(kept))))
    print(history.list_text(folder))
    return 0


def explain(wanted: str) -> int:
    """The docstrings of the checks whose id holds `wanted`; a list of all without one."""
    found = sorted(check for check in check_texts(checks_folder()) if wanted in check[0])
    if not found:
        raise UsageError(f"explain: no check is called {wanted!r}; preflight explain lists them")
    for name, verdict, text in found:
        if wanted:
            print(f"{name} ({verdict} where it does not hold)\n\n{textwrap.indent(text, '  ')}\n")
        else:
            print(f"{name}\n    {text.splitlines()[0]}")
    return 0


def check_texts(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Id, the verdict where it does not hold, and docstring of every check in a folder, without running anything."""
    for path in sorted(folder.glob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                text = ast.get_docstring(node) or ""
                marks = {mark.attr for mark in node.decorator_list if isinstance(mark, ast.Attribute)}
                name = f"{path.stem.removeprefix('test_')}.{node.name.removeprefix('test_')}"
                yield name, "warn" if "advisory" in marks else "fail", text
