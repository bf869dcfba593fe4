"""Do the pages in docs/ say what the code says, and do their commands and options exist?"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys

import pytest
from markdown_it import MarkdownIt

from preflight.cli.explain import check_texts
from preflight.cli.main import parser_of
from preflight.cli.parser import Parser
from preflight.job.options.options import OPTIONS
from preflight.said.errors import UsageError
from tests import docs, house

ARCHITECTURE = (docs.DOCS / "architecture.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\d+|apart) \| `(\w+)` \| \S.*\|$", re.MULTILINE)
PAGES = sorted((*docs.DOCS.rglob("*.md"), house.ROOT / "README.md", house.ROOT / "README.zh-CN.md"))
COMMAND = re.compile(r"^    (preflight .*)$|`(preflight [^`\n]+)`", re.MULTILINE)
# Options of one verb alone, and of other programs.
OTHERS = {
    "--match", "--pid", "--list", "--keep", "--format", "--diff", "--out", "--like", "--mode", "--help", "--wrap",
    "--help-all", "--exclusive", "--gpus-per-task", "--gpus-per-node",
    "--overlap", "--rdzv_id", "--rdzv_endpoint", "--nnodes", "--nproc_per_node", "--node_rank",
}  # fmt: skip


def named(path):
    """A page as a test's id has it."""
    return str(path.relative_to(house.ROOT))


def rendered(text: str) -> str:
    """What a reader of the page sees: its words without the marks, white space folded."""
    tokens = [part for block in MarkdownIt().parse(text) for part in block.children or ()]
    return " ".join(" ".join(part.content or " " for part in tokens).split())


@pytest.fixture(scope="module")
def built():
    """Every page of the site that is built from the code."""
    return docs.built()


def test_the_page_shows_what_explain_prints(built):
    """Markdown swallows nothing of a docstring: no <placeholder>, no asterisk, no underscore."""

    def letters(text: str) -> str:
        return re.sub(r"[\s`]|(?<!/)\*(?!/)", "", text)

    seen = letters(rendered(built[docs.CHECKS_PAGE]))
    assert [name for name, _, text in check_texts(docs.CHECKS_FOLDER) if letters(text) not in seen] == []


def test_what_is_looked_up_is_all_there(built):
    """Every option, every fact of a subject and every symptom has its line."""
    options = built["reference/options.md"]
    assert [row.name for row in OPTIONS.values() if f"--{row.name.removeprefix('bench-')}`" not in options] == []
    facts = built["reference/facts.md"]
    assert [
        path.stem for path in (house.PACKAGE / "facts/subjects").glob("[a-z]*.py") if f"\n## {path.stem}\n" not in facts
    ] == []
    for page in ("troubleshooting.md", "zh/troubleshooting.md"):
        text = (docs.DOCS / page).read_text(encoding="utf-8")
        assert {"socket timeout", "connection refused", "nan", "slow"} <= set(docs.SYMPTOM.findall(text))
        assert not re.search(r"<!-- symptom", docs.completed(page, text))
        assert len(re.findall(r"^- \[", docs.completed(page, text), re.MULTILINE)) >= len(docs.SYMPTOM.findall(text))


def test_no_page_that_is_built_is_committed(built):
    """What the site builds has one source: the code."""
    assert [path for path in built if (docs.DOCS / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_are_ones_that_preflight_takes(page):
    """Each is parsed as it stands; those in sentences may end where the reader's own words begin."""
    wrong = {}
    for block, inline in COMMAND.findall(page.read_text(encoding="utf-8")):
        command = re.split(r"  +#|\.\.\.", block or inline)[0].strip()
        said = refusal(command.replace("<", "").replace(">", ""))
        if said and (block or "the following arguments are required" not in said):
            wrong[command] = said
    assert wrong == {}


def refusal(command: str) -> str:
    """What the parser of the command line has against a command; "" for nothing."""
    words = shlex.split(command)[1:]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):  # --help and --version leave so
        try:
            parser_of(words).parse_args(words)
        except UsageError as error:
            return str(error)
    return ""


def test_a_wrong_command_is_refused():
    """Else the test above would pass on anything."""
    assert isinstance(parser_of(["run"]), Parser)
    assert "unrecognized arguments" in refusal("preflight run --hots=node1")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_options_that_are_named_exist(page):
    """An option in code, of ours by its name, is one of the table, of a verb, of a launcher or of another program."""
    ours = {f"--{row.name}" for row in OPTIONS.values()} | {f"--{row.name_in('bench')}" for row in OPTIONS.values()}
    text = page.read_text(encoding="utf-8")
    given = set(re.findall(r"`(--[a-z][a-z-]+)(?:[ =][A-Z]+(?:\\\|[\w-]+)?)?`", text))
    assert sorted(given - ours - OTHERS) == []


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed")
def test_the_site_is_built_without_a_warning(tmp_path):
    """mkdocs --strict: every page in the menu, every link and anchor in place."""
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", ".ci/mkdocs.yml", "-d", str(tmp_path / "site")]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=house.ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    assert (tmp_path / "site" / "start" / "accelerate.html").is_file()
    assert "训练网卡" in (tmp_path / "site" / "zh" / "checks.html").read_text(encoding="utf-8")


def test_every_room_is_named_in_its_layer():
    """The table has each room of preflight/ once, in the layer that the tests keep."""
    layers = {name: str(number) for number, row in enumerate(house.ORDER, start=1) for name in row}
    layers["node"] = "apart"
    assert {room: layer for layer, room in ROW.findall(ARCHITECTURE)} == layers
    assert len(ROW.findall(ARCHITECTURE)) == len(house.rooms())


def test_the_layers_inside_the_larger_rooms_are_those_kept():
    """One line a room."""
    assert "- `node`: agent → sources" in docs.completed("architecture.md", ARCHITECTURE)


def test_files_that_the_pages_name_are_there():
    """Paths of the package in the table of what to touch."""
    paths = re.findall(r"`((?:node|facts|launch|reach|job|judge|report)/[\w/]+(?:\.py)?)`", ARCHITECTURE)
    assert [path for path in paths if "NAME" not in path and not (house.PACKAGE / path).exists()] == []
