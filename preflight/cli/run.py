"""What does each verb of the command line do, once its options are known?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from preflight import hosts
from preflight.options.options import options_from
from preflight.options.table import BENCH_OPTIONS, OPTIONS, Chosen, canonical
from preflight.plugin import checks_folder
from preflight.report.document import RunReport, to_document
from preflight.report.files import print_json
from preflight.report.formats.table import bench_table
from preflight.report.formats.training import training_table
from preflight.report.json import read_json

PYTEST_INI = Path(__file__).parents[1] / "pytest.ini"
PYTEST_WORDS = (
    "-pno:cacheprovider",
    "-ppreflight.plugin",
    "--import-mode=importlib",
    "-qq",
    "--no-header",
    "-Wignore::pytest.PytestAssertRewriteWarning",
    "-oconsole_output_style=classic",
)


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
