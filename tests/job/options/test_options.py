"""What follows from the options that were given?"""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.job.options.options import OPTIONS, PROFILES, Options, new_run_id
from preflight.job.options.parse import checked
from preflight.job.options.sweep import OPERATIONS
from preflight.launch import launchers
from preflight.reach.host import Host
from preflight.reach.hosts import parse_hosts
from preflight.reach.transport.ray import Ray


def test_the_defaults_are_a_good_run():
    """Nothing asked is the standard profile on this machine."""
    options = checked(Options())
    assert (options.hosts, options.profile, options.deadline_seconds) == (parse_hosts("local"), "standard", 300.0)
    assert options.layers == []
    assert options.reach.python is None


@pytest.mark.parametrize(("profile", "seconds"), PROFILES.items())
def test_a_profile_has_its_deadline_and_the_users_own_wins(profile, seconds):
    """45, 300 and 900 seconds."""
    assert checked(Options(profile=profile)).deadline_seconds == seconds
    assert checked(Options(profile=profile, deadline=60.0)).deadline_seconds == 60.0


def test_a_way_whose_tasks_take_long_to_start_has_its_time_added():
    """Ray starts a driver and a worker of its own on each node; what the user asked for stays."""
    hosts = (Host("a", "ray:10.0.0.1:6379/10.0.0.1", transport="ray"), Host("b", "10.0.0.2"))
    assert Options(profile="quick", hosts=hosts).deadline_seconds == PROFILES["quick"] + Ray.starting_seconds > 80
    assert Options(profile="quick", hosts=hosts[1:]).deadline_seconds == PROFILES["quick"]
    assert Options(profile="quick", hosts=hosts, deadline=60.0).deadline_seconds == 60.0


def test_a_run_without_a_folder_reports_under_its_id():
    """Beside the others, by time."""
    options = Options(run_id="20300102-030405-abcdef")
    assert options.folder == Path("reports/20300102-030405-abcdef")


def test_variables_are_one_layer_and_the_last_of_a_name_wins():
    """A value may hold equals signs and be empty."""
    options = Options(env=("A=1", "B=x=y", "A=", "_C=\u00e9"))
    assert options.layers == [("--env", {"A": "", "B": "x=y", "_C": "\u00e9"})]


def test_no_two_runs_have_one_id():
    """Nor is there anything in it that a shell, a path or a terminal could mistake."""
    ids = {new_run_id() for _ in range(200)}
    assert len(ids) == 200
    assert all(set(name) <= set("0123456789abcdef-") and len(name) == 22 for name in ids)


def test_every_option_has_a_sentence_of_help():
    """One that starts and ends as a sentence, fits beside its name and stands under a heading."""
    for row in OPTIONS.values():
        assert row.help[0].isupper(), row.name
        assert row.help.endswith((".", "?")), row.name
        assert len(row.help) <= 100, row.name
        assert row.subject, row.name
        assert bool(row.metavar) + bool(row.choices) + row.is_flag == 1, row.name


def test_the_full_profile_measures_everything():
    """All collectives, and each GPU alone; both can be had without it."""
    full = Options(profile="full")
    assert full.burn_in
    assert full.sweep.operations == OPERATIONS
    assert Options(profile="full", bench_op="broadcast").sweep.operations == ("broadcast",)
    assert (Options().burn_in, Options(bench_burn_in=True).burn_in) == (False, True)


def test_the_launchers_are_those_that_can_start_a_job():
    """They are looked up in the registry when they are needed."""
    choices = OPTIONS["launcher"].choices
    assert tuple(choices) == launchers.startable()
    assert (len(choices), "torchrun" in choices, "slurm" in choices) == (len(launchers.startable()), True, False)


def test_tests_of_vendors_have_levels_and_time():
    """The whole run may take so much longer."""
    asked = Options(vendor_tests="dcgmi:1, nvbandwidth")
    assert asked.tests_of_vendors == (("dcgmi", "1", 90.0), ("nvbandwidth", "", 240.0))
    assert asked.deadline_seconds == Options().deadline_seconds + 330.0
    assert Options(vendor_tests="dcgmi").tests_of_vendors[0][1] == "2"
