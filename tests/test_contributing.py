"""Does CONTRIBUTING.md hold: its worked examples, its commands, and those of CI and of the hooks?"""

from __future__ import annotations

import re
import sys

import pytest
import yaml

from tests.house import ROOT
from tests.newcomer import show

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEXT = show.CONTRIBUTING.read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DIFFS = show.diffs_in(show.FOLDER)


def shown() -> dict[str, str]:
    """The diffs as a reader copies them out of CONTRIBUTING.md."""
    blocks = {found["name"]: found["block"] for found in show.SHOWN.finditer(TEXT)}
    return {name: re.sub(r"\A\n```diff\n|```\n\n\Z", "", block) for name, block in blocks.items()}


def commands(text: str) -> set[str]:
    """The commands of the indented blocks, without what is said about them."""
    return {re.split(r"  +#", line)[0].strip() for line in re.findall(r"^    (?! )(.+)$", text, re.MULTILINE)}


def steps() -> list[dict[str, str]]:
    """Every step of every job of the workflows."""
    jobs = [job for path in WORKFLOWS for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()]
    return [step for job in jobs for step in job["steps"]]


@pytest.mark.parametrize("name", ["check", "launcher", "transport", "metric", "report_format", "variable"])
def test_every_worked_example_has_its_place(name):
    """Six things that people add, each with a paragraph and a place for its diff."""
    assert name in shown()


@pytest.mark.parametrize("name", DIFFS)
def test_the_diff_shown_is_the_one_that_is_tested(name):
    """What a reader copies is, letter for letter, what the tests apply and run."""
    assert shown().get(name) == DIFFS[name].rstrip("\n") + "\n", "run python -m tests.newcomer.show"


def test_no_diff_is_shown_that_nothing_tests():
    """A block without its file would be free to go stale."""
    assert [name for name, block in shown().items() if block and name not in DIFFS] == []


def test_refreshing_writes_a_diff_between_its_marks():
    """The text around stays; an older block is replaced; a second time changes nothing."""
    text = "before\n<!-- tests/newcomer/check.diff -->\n\n```diff\n-old\n```\n\n<!-- end -->\nafter\n"
    once = show.refreshed(text, {"check": "+new\n", "other": "+x\n"})
    assert once == "before\n<!-- tests/newcomer/check.diff -->\n\n```diff\n+new\n```\n\n<!-- end -->\nafter\n"
    assert show.refreshed(once, {"check": "+new\n"}) == once
    assert "diff\n+" not in show.refreshed(once, {})


def test_ci_runs_commands_that_people_can_run():
    """Every command of a workflow stands in CONTRIBUTING or README, word for word."""
    known = commands(TEXT) | commands(README)
    ran = [step["run"].strip() for step in steps() if "run" in step]
    assert len(ran) >= 10
    assert [command for command in ran if command not in known] == []


def test_the_scripts_that_are_named_exist():
    """`python -m tests.X` leads to a module, and .ci/run to a file that can be run."""
    modules = re.findall(r"^    .*python -m (tests[\w.]*)", TEXT, re.MULTILINE)
    paths = [ROOT / module.replace(".", "/") for module in modules]
    assert [path for path in paths if not (path.with_suffix(".py").is_file() or (path / "__main__.py").is_file())] == []
    assert (ROOT / ".ci/run").stat().st_mode & 0o100


def test_ci_tries_every_python_that_is_promised():
    """The classifiers, requires-python and the matrix name the same versions."""
    workflow = ROOT / ".github/workflows/ci.yml"
    matrix = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]["unit"]["strategy"]["matrix"]["python"]
    classified = [word.rpartition(" ")[2] for word in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", word)]
    assert matrix == classified
    assert PROJECT["requires-python"] == f">={matrix[0]}"


def test_the_hooks_run_the_tools_of_this_environment():
    """Formatting, lint and types as CI runs them, in the versions of .venv."""
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    entries = {hook["entry"].removesuffix(" --force-exclude") for hook in repo["hooks"]}
    assert repo["repo"] == "local"
    assert entries == {".venv/bin/ruff format", ".venv/bin/ruff check", ".venv/bin/mypy"}
    assert {command.removesuffix(" --check") for command in commands(TEXT)} > entries


@pytest.mark.parametrize("path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.name)
def test_the_forms_for_issues_can_be_read(path):
    """Each field has an id and a label of its own; the bug report asks for the run and the facts."""
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    fields = [field for field in form.get("body", []) if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)
    if path.name == "bug_report.yml":
        labels = [field["attributes"]["label"] for field in fields if field.get("validations", {}).get("required")]
        assert {"report.json", "preflight facts --json"} <= set(labels)


def test_the_changelog_knows_the_version():
    """The newest heading is what is not released yet, the next one the version of the package."""
    from preflight import __version__

    headings = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[:2] == ["Unreleased", __version__]
