"""Does docs/figures.md say what the commands in it print? The cheap ones are run, the others have a day and commit."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from tests.house import ROOT

ROW = re.compile(
    r"^\| (?P<what>.+?) \| (?P<figure>.+?) \| `(?P<command>[^|]+)` \| (?P<measured>[^|]+) \|$", re.MULTILINE
)
PAGE = (ROOT / "docs/figures.md").read_text(encoding="utf-8")
ROWS = [row.groupdict() for row in ROW.finditer(PAGE)]
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
EACH_RUN = "each test run"

# Of the commands that are run here: where the figures stand in what they print, and by which share each may differ.
# A count does not; a size does, from one Python and disk to another. No figure of time is compared.
PRINTED = {
    "footprint": (r"without torch (\d+) MB", 0.2),
    "judge": (r"memory +([\d.]+) GiB", 0.4),
    "simulate": (r"([\d,]+) runs, .*, (\d+) false", 0.0),
    "fuzz": (r"(\d+) parsers, (\d+) inputs each: 0 parsers took one wrongly", 0.0),
    "ledger": (r"(\d+) damaged ledgers, (\d+) pass", 0.0),
}


def module(row: dict[str, str]) -> str:
    """tests.bench.judge of `python -m tests.bench.judge --nodes 200`; "" of another command."""
    found = re.match(r"python -m (\S+)", row["command"])
    return found[1] if found else ""


def numbers(text: str) -> list[float]:
    """Those of a figure, in order."""
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


def differs(said: list[float], printed: list[float], share: float) -> bool:
    """Whether one of the numbers said is further from what was printed than it may be."""
    pairs = zip(said, printed, strict=False)
    return len(said) < len(printed) or any(abs(one - other) > share * one for one, other in pairs)


def test_every_figure_has_the_command_that_prints_it():
    """Each row of the table: a command that exists, and either the tests run it or its day and commit stand there."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| what ")]
    assert len(ROWS) == len(lines) > 20
    for row in ROWS:
        name = module(row)
        path = ROOT / name.replace(".", "/")
        assert not name or path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), row["command"]
        assert name or row["command"].startswith(("preflight ", "pytest ")), row["command"]
        assert row["measured"] == EACH_RUN or re.fullmatch(r"\d{4}-\d\d-\d\d, [0-9a-f]{8}", row["measured"]), row


@pytest.mark.parametrize("row", [row for row in ROWS if row["measured"] == EACH_RUN], ids=lambda row: row["command"])
def test_a_figure_is_what_its_command_prints(row):
    """Counts, sizes and shares, within what PRINTED allows."""
    pattern, share = PRINTED[module(row).rpartition(".")[2]]
    words = [sys.executable, *shlex.split(row["command"])[1:]]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    found = re.search(pattern, done.stdout)
    assert found, done.stdout[-2000:] + done.stderr[-2000:]
    printed = [float(number.replace(",", "")) for number in found.groups()]
    assert not differs(numbers(row["figure"]), printed, share), (row["figure"], found[0])


@pytest.mark.parametrize(
    ("said", "printed"), [("14,340 runs, 0 false", [23120.0, 0.0]), ("30 MB", [43.0]), ("none", [1.0])]
)
def test_a_wrong_figure_is_seen(said, printed):
    """Another count, a size too far away, and no number at all."""
    assert differs(numbers(said), printed, 0.2)


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_the_readme_gives_the_figure_that_is_printed(name):
    """Its size without torch is the one in the table."""
    (size,) = (row["figure"] for row in ROWS if module(row) == "tests.bench.footprint")
    assert re.findall(r"(?:Without|不带) `\[torch\]`\D{1,20}(\d+ MB)", (ROOT / name).read_text(encoding="utf-8")) == [
        size
    ]


@pytest.mark.parametrize(("name", "words"), [("README.md", "stand-ins"), ("README.zh-CN.md", "替身")])
def test_the_readme_says_what_has_met_no_hardware(name, words):
    """One sentence with all four of them, and what was taken in their place."""
    text = (ROOT / name).read_text(encoding="utf-8")
    sentences = re.split(r"(?<=\.) |。", re.sub(r"\s+", " ", text))
    assert any(all(word in one for word in ("GPU", "NCCL", "RDMA", "API server", words)) for one in sentences)
