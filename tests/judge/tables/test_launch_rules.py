"""Is every rule about launch files known, plugged in, and shown once with each of its verdicts?"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

from preflight import launch
from preflight.judge.ledger.findings import Verdict
from preflight.judge.tables.launch_rules import TEXTS, VERDICTS
from preflight.launch.field import words
from preflight.launch.launchers import ROWS
from preflight.launch.plan import fail, warn
from preflight.launch.rules import check, ranks
from preflight.launch.rules.check import check_texts
from tests.launch import truth

EACH = truth.parsed((truth.FOLDER.parent / "launch_rules.txt").read_text(), "launch_rules.txt")
# What judges by itself: the first argument of a rule, and what it is called with beside it.
GIVEN = {"Plan", "Group", "LaunchFiles", "ScriptFile"}
SOURCES = "\n".join(path.read_text() for path in Path(launch.__path__[0]).rglob("*.py"))


def plugged():
    """Every function that `judge` calls."""
    of_rows = [rule for row in ROWS for rule in (*row.rules, *row.files_rules)]
    lists = (check.PLAN_RULES, check.GROUP_RULES, check.SCRIPT_RULES, check.FILES_RULES, check.LIVE_RULES)
    return {rule for rules in lists for rule in rules} | set(of_rows)


def is_called(name):
    """Whether another function calls it by its name, as one rule does that looks at several."""
    return re.search(rf"(?<!def )\b{name}\(", SOURCES) is not None


def written():
    """Every public function under launch/ that gives findings of plans, groups, scripts or files."""
    for module in pkgutil.walk_packages(launch.__path__, "preflight.launch."):
        held = importlib.import_module(module.name)
        for name, function in inspect.getmembers(held, inspect.isfunction):
            if function.__module__ != module.name or name.startswith("_"):
                continue
            first = next(iter(inspect.signature(function).parameters.values()), None)
            gives = str(inspect.signature(function).return_annotation)
            if first is not None and str(first.annotation) in GIVEN and "[Finding" in gives:
                yield function


def test_every_rule_that_is_written_is_plugged_in():
    """A list of rules that is left out of the judgement, or a rule left out of its list, is seen here."""
    found = set(written())
    assert len(found) > 70
    missing = {f"{one.__module__}.{one.__name__}" for one in found - plugged() if not is_called(one.__name__)}
    assert missing == set()


def test_a_list_that_is_unplugged_is_seen(monkeypatch):
    """Without the rules about ranks of all files, one that is written is no longer called."""
    left = tuple(rule for rule in check.FILES_RULES if rule not in ranks.FILES_RULES)
    monkeypatch.setattr(check, "FILES_RULES", left)
    assert set(written()) - plugged() >= set(ranks.FILES_RULES)


@pytest.mark.parametrize("case", EACH, ids=lambda case: case.name)
def test_each_rule_is_told_with_its_verdict_at_its_line(case):
    """All that is told of the files of a case stands in it, and nothing else."""
    found = {
        (finding.check.removeprefix("launch."), str(finding.verdict), truth.place_of(finding))
        for finding in check_texts(case.texts)[0]
    }
    assert found == {(must.rule, must.verdict, f"{must.file}:{must.line}") for must in case.musts}


# Told only with facts of nodes, a port that is tried, or an owner that is asked: their own tests have those.
WITH_NODES = frozenset(
    words(
        """
        compile_finds_a_compiler cpu_ranks_form_one_world data_is_no_lfs_pointer deepspeed_finds_its_python
        deepspeed_tells_the_right_address files_are_judged hostfile_is_the_hosts hostfile_slots_fit_gpus
        limits_are_those_of_slurmd master_address_is_on_the_training_interface
        master_port_is_free nodes_are_the_hosts offload_fits_memory owner_accepts_it packages_are_there
        paths_are_on_every_node
        precision_fits_gpus processes_fit_gpus rank_0_is_reached rendezvous_endpoint_is_recognised
        servers_tell_the_right_address variables_fit_the_nodes versions_start_the_job
        """
    )
)


def test_every_rule_has_a_case_with_each_of_its_verdicts():
    """By its files alone; those that need nodes are named, and no other is missing."""
    shown = {(must.rule, must.verdict) for case in (*truth.cases(), *EACH) for must in case.musts}
    wanted = {(name, verdict) for name, verdicts in VERDICTS.items() for verdict in verdicts}
    without_bash = {("script_is_bash", "skip")}  # tests/cli/test_launch.py takes the bash of this machine away
    assert {name for name, _ in wanted - shown - without_bash} == WITH_NODES


def test_a_finding_of_no_known_rule_or_verdict_is_not_made():
    """So `preflight explain` knows them all, and a verdict that turns into another is seen."""
    with pytest.raises(KeyError):
        fail("a_rule_of_nobody", "")
    with pytest.raises(ValueError, match="never warn"):
        warn("ranks_are_distinct", "")


def test_verdicts_of_rules_are_those_of_findings():
    """Each once; none only passes or is left open, but for what tells of a file as a whole."""
    told = [verdict for verdicts in VERDICTS.values() for verdict in verdicts]
    assert set(told) <= {str(verdict) for verdict in Verdict}
    assert all(len(set(verdicts)) == len(verdicts) > 0 for verdicts in VERDICTS.values())
    open_ones = {name for name, verdicts in VERDICTS.items() if not {"fail", "warn"} & set(verdicts)}
    assert open_ones == {"file_is_judged", "files_are_judged", "jobs_are_told_apart", "limits_are_those_of_slurmd"}


def test_texts_are_of_rules_that_are_known():
    """A text of a rule that is gone explains nothing."""
    assert set(TEXTS) <= set(VERDICTS)
    assert all(isinstance(text, str) and text.endswith((".", "?")) for text in TEXTS.values())
