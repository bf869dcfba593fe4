"""Is no job blamed that really ran here and ended well, and what was planted in one of them found?

What the jobs printed stands in tests/data/recorded (``python -m tests.bench.healthy_logs`` records it), each log under a line
``%% job = causes``: one of them is right; nothing stands there for a job that ended well, or was stopped after it had saved.
Those of the stacks of ``PUBLISHED`` need GPUs: their lines are of public logs, shortened, without names of people and machines.
"""

from __future__ import annotations

import lzma

import pytest

from preflight.diagnose import diagnose
from tests.diagnose.healthy import FAILURES
from tests.diagnose.test_logs import DRESSES
from tests.diagnose.test_same import FORMS, LINES, QUOTES
from tests.house import ROOT
from tests.shares import shares, some_first

PUBLISHED = {"megatron", "verl", "vllm", "sglang", "nemo"}
CHOSEN = ("as printed", "by kubectl", "with times", "in colours")


def recorded() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Every log by stack and job: the causes of which one is right, and its lines."""
    found = {}
    for path in sorted((ROOT / "tests" / "data" / "recorded").glob("*.txt.xz")):
        for part in lzma.decompress(path.read_bytes()).decode().split("%% ")[1:]:
            head, _, body = part.partition("\n")
            name, _, causes = head.partition(" =")
            found[f"{path.name.partition('.')[0]}: {name}"] = (tuple(causes.split()), tuple(body.splitlines()))
    return found


LOGS = recorded()
HEALTHY = {name: lines for name, (causes, lines) in LOGS.items() if not causes}
PLANTED = {name: log for name, log in LOGS.items() if log[0]}


def test_there_are_enough_of_them():
    """Of all stacks, those that need a GPU too."""
    assert len(HEALTHY) >= 150
    assert len(PLANTED) >= 80
    stacks = {name.partition(":")[0] for name in HEALTHY}
    assert stacks == PUBLISHED | {"torch", "restarts", "accelerate", "deepspeed", "trainer", "lightning", "ray"}
    assert all(sum(name.startswith(f"{stack}:") for name in HEALTHY) >= 6 for stack in PUBLISHED)


@pytest.mark.parametrize("dress", some_first(CHOSEN, ["by kubectl"]))
def test_a_job_that_ended_well_is_not_blamed(dress):
    """For what it caught, tried again, recovered from, quoted or printed as it ended."""
    blamed = {}
    for name, lines in HEALTHY.items():
        found = diagnose(DRESSES[dress](lines))
        if found.has_failed:
            blamed[name] = [one.cause.name for one in (*found.causes, *found.consequences)]
    assert blamed == {}


@pytest.mark.parametrize("form", some_first(FORMS, ["twice"]))
def test_another_form_of_such_a_log_is_not_blamed_either(form):
    """Twice, of another version, or as another launcher prefixes it."""
    blamed = [name for name, lines in HEALTHY.items() if diagnose(FORMS[form](list(lines))).has_failed]
    assert blamed == []


@pytest.mark.parametrize("dress", some_first(CHOSEN))
def test_what_was_planted_in_a_job_is_found(dress):
    """Killed, without memory, disk or file, with another port, or by an exception: in its last rank, at its sixth step."""
    missed = {}
    for name, (causes, lines) in PLANTED.items():
        found = [one.cause.name for one in diagnose(DRESSES[dress](lines)).causes]
        if not found or found[0] not in causes:
            missed[name] = found
    assert missed == {}


@pytest.mark.parametrize("share", shares(4))
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_after_all_that_is_found(failure, share):
    """As a second job in the same log, or a rank that fails as the others end."""
    missed = {}
    for name, lines in share.of(HEALTHY.items()):
        found = [one.cause.name for one in diagnose([*lines, *FAILURES[failure]()]).causes]
        if found[:1] != [failure]:
            missed[name] = found
    assert missed == {}


@pytest.mark.parametrize("share", shares(8))
@pytest.mark.parametrize("form", QUOTES)
def test_what_such_a_log_quotes_of_another_job_is_no_failure(form, share):
    """In its middle, and as its last line."""
    blamed = {}
    for number, (name, lines) in share.of(enumerate(HEALTHY.items())):
        quoted = QUOTES[form].format(LINES[number % len(LINES)])
        for at in (len(lines) // 2, len(lines)):
            if diagnose([*lines[:at], quoted, *lines[at:]]).has_failed:
                blamed[name] = quoted
    assert blamed == {}
