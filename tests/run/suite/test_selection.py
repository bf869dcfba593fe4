"""Why does a run leave a check out, and what comes first of the others?"""

from preflight.job.options.options import Options
from preflight.judge.check import Check
from preflight.run.suite.judge import REACH_CHECK
from preflight.run.suite.selection import place, why_left_out
from preflight.testing import healthy


def check(name, kind="node"):
    """A check of that name and kind."""
    return Check(name, lambda: None, (kind,), kind)


CHECKS = {
    one.id: one
    for one in (
        check(REACH_CHECK),
        check("names.resolve", "cluster"),
        check("limits.nofile"),
        check("mesh.every_pair_connects", "mesh"),
        check("bench.speed", "bench"),
        check("training.loss", "training"),
        check("kernel.oom", "ending"),
    )
}


def asked(**options):
    """The checks that a run with these options runs, in its order."""
    given = Options(**options)
    return [one.id for one in sorted(CHECKS.values(), key=place) if not why_left_out(one, CHECKS, given, healthy())]


def test_who_answers_comes_first_and_what_moved_in_the_run_last():
    """Jobs stand between, each after what it waits for; nothing is left out."""
    assert asked() == [*CHECKS]


def test_a_quick_run_starts_no_job_and_a_verb_asks_for_its_own_subjects():
    """The reason is what the user gave."""
    assert {*CHECKS} - {*asked(profile="quick")} == {"bench.speed", "training.loss"}
    assert asked(subjects=("mesh", "bench")) == ["mesh.every_pair_connects", "bench.speed"]
    reasons = {
        why_left_out(CHECKS["limits.nofile"], CHECKS, Options(subjects=words), healthy())
        for words in (
            ("mesh", "bench"),
            ("names", "limit"),
        )
    }
    assert reasons == {"verb bench", "only names, limit"}


def test_what_was_red_is_asked_again_with_what_its_job_waits_for():
    """And whether the nodes answer; what was green is not."""
    assert asked(only=frozenset({"limits.nofile"})) == [REACH_CHECK, "limits.nofile"]
    again = asked(only=frozenset({"bench.speed"}))
    assert again == [REACH_CHECK, "names.resolve", "mesh.every_pair_connects", "bench.speed"]
    left_out = why_left_out(CHECKS["limits.nofile"], CHECKS, Options(only=frozenset()), healthy())
    assert left_out == "green in the last run"
