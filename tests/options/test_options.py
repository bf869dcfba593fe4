"""Is what the user asked for taken as meant, and anything else refused by name?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from preflight.errors import UsageError
from preflight.hosts import parse_hosts
from preflight.launch import launchers
from preflight.options.options import OPTIONS, PROFILES, Options, new_run_id, parse_options
from preflight.options.settings import BenchSettings
from preflight.options.sweep import OPERATIONS


def test_the_defaults_are_a_good_run():
    """Nothing asked is the standard profile on this machine."""
    options = Options().checked()
    assert (options.hosts, options.profile, options.deadline_seconds) == (parse_hosts("local"), "standard", 300.0)
    assert options.layers == []
    assert options.reach.python is None


@pytest.mark.parametrize(("profile", "seconds"), PROFILES.items())
def test_a_profile_has_its_deadline_and_the_users_own_wins(profile, seconds):
    """45, 300 and 900 seconds."""
    assert Options(profile=profile).checked().deadline_seconds == seconds
    assert Options(profile=profile, deadline=60.0).checked().deadline_seconds == 60.0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"backend": "mpi"}, "--backend 'mpi': not supported; wanted one of auto, nccl, gloo"),
        ({"backend": ""}, "--backend ''"),
        ({"launcher": "qrsh"}, "--launcher 'qrsh': not supported"),
        ({"model": "huge"}, "--model 'huge': not supported; wanted one of tiny, small, medium"),
        ({"strategy": "zero3"}, "--strategy 'zero3': not supported; wanted one of ddp, fsdp"),
        ({"precision": "fp16"}, "--precision 'fp16': not supported; wanted one of fp32, bf16"),
        ({"accumulate": "3"}, "--accumulate '3': not supported; wanted one of 1, 2, 4"),
        ({"bench_dtype": "float8"}, "--bench-dtype 'float8': not supported; wanted one of float32"),
        ({"bench_mode": "async"}, "--bench-mode 'async'"),
        ({"bench_scope": "rail"}, "--bench-scope 'rail'"),
        ({"bench_begin": "8M", "bench_end": "1M"}, "-b 8M -e 1M: the first size is larger than the last"),
        ({"checkpoint_dir": "here"}, "--checkpoint-dir here: wanted a path from /"),
        ({"launcher": "deepspeed", "strategy": "fsdp"}, "--launcher deepspeed trains with ZeRO stage 2"),
        ({"shared": ("data",)}, "--shared 'data': wanted a full path, the same on every node"),
        ({"same": ("~/code",)}, "--same '~/code': wanted a full path"),
        ({"profile": "fast"}, "--profile 'fast': not supported; wanted one of quick, standard, full"),
        ({"ranks_per_node": "0"}, "--ranks-per-node '0'"),
        ({"ranks_per_node": "-1"}, "--ranks-per-node '-1'"),
        ({"ranks_per_node": "10000"}, "--ranks-per-node"),
        ({"ranks_per_node": "\u0662"}, "--ranks-per-node"),
        ({"deadline": 0.0}, "--deadline 0: wanted 5 to 86400 seconds"),
        ({"deadline": float("nan")}, "--deadline nan"),
        ({"deadline": float("inf")}, "--deadline inf"),
        ({"wrap": "docker exec 'trainer"}, "--wrap"),
        ({"ssh_option": '-o "x'}, "--ssh-option"),
        ({"env": ("NOVALUE",)}, "--env 'NOVALUE': wanted NAME=VALUE"),
        ({"env": ("1X=xyzzysecret",)}, "--env '1X=[hidden]': wanted NAME=VALUE"),
        ({"env": ("xyzzy secret",)}, "--env '[hidden]': wanted NAME=VALUE"),
        ({"env": ("1A=x",)}, "--env '1A=[hidden]'"),
        ({"env": ("A B=x",)}, "--env"),
        ({"env": ("=x",)}, "--env"),
        ({"env": ("A=x\0y",)}, "--env"),
    ],
)
def test_what_cannot_be_is_refused_by_name(fields, words):
    """The message names the option, what was given and what was wanted, on one line."""
    with pytest.raises(UsageError) as caught:
        Options(**fields).checked()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_report_folder_that_is_a_file_is_refused(tmp_path):
    """Before anything runs; a folder may exist or not."""
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UsageError, match="exists and is not a folder"):
        Options(report_dir=file).checked()
    assert Options(report_dir=tmp_path).checked().folder == tmp_path
    assert Options(report_dir=tmp_path / "new").checked().folder == tmp_path / "new"


def test_a_stored_run_that_is_a_file_is_refused(tmp_path):
    """Before pytest starts."""
    (tmp_path / "report.json").touch()
    with pytest.raises(UsageError, match=r"report\.json: not a folder"):
        Options(from_run=tmp_path / "report.json").checked()
    assert Options(from_run=tmp_path).checked().from_run == tmp_path
    with pytest.raises(UsageError, match="--dry-run with --from"):
        Options(from_run=tmp_path, dry_run=True).checked()


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


def parsed(**values) -> Options:
    return parse_options(values, command=("preflight",))


def test_every_option_has_a_sentence_of_help():
    """One that starts and ends as a sentence, fits beside its name and stands under a heading."""
    for row in OPTIONS.values():
        assert row.help[0].isupper(), row.name
        assert row.help.endswith((".", "?")), row.name
        assert len(row.help) <= 100, row.name
        assert row.subject, row.name
        assert bool(row.metavar) + bool(row.choices) + row.is_flag == 1, row.name


def test_what_was_not_given_is_the_default_of_the_field():
    """The same in a verb that lacks the option, in one where it was not given, and in a program."""
    given = parsed(hosts=None, backend=None, env=None)
    assert replace(given, run_id="x") == Options(command=("preflight",), run_id="x")


def test_every_option_is_read_into_its_type():
    """Hosts, files and folders are what they name; a list is a tuple without its end slashes."""
    options = parsed(hosts="node[1-2]", deadline=60.0, shared=["/data/", "/"], report_dir="r", json="-", dry_run=True)
    assert [host.name for host in options.hosts] == ["node1", "node2"]
    assert (options.deadline_seconds, options.shared, options.report_dir) == (60.0, ("/data", "/"), Path("r"))
    assert (options.json, options.dry_run) == ("-", True)


def test_settings_are_the_file_that_was_named(tmp_path):
    """One that cannot be read is named."""
    (tmp_path / "p.toml").write_text("[bench]\nfail_below = 0.85\n")
    assert parsed(settings=str(tmp_path / "p.toml")).settings.bench == BenchSettings(fail_below=0.85)
    with pytest.raises(UsageError, match=r"nowhere\.toml is not a file"):
        parsed(settings="nowhere.toml")


def test_hosts_beside_a_stored_run_are_refused(tmp_path):
    """The stored run is of its own hosts."""
    with pytest.raises(UsageError, match="--hosts with --from"):
        parsed(from_run=str(tmp_path), hosts="local")


@pytest.mark.parametrize("field", [field for field, row in OPTIONS.items() if row.is_live])
def test_what_nodes_would_be_asked_is_refused_beside_a_stored_run(field, tmp_path):
    """It was not measured: a stored run without --shared says nothing of a shared folder."""
    given = True if OPTIONS[field].is_flag else ["/data"] if OPTIONS[field].is_list else "6h"
    with pytest.raises(UsageError, match=f"--{OPTIONS[field].name} with --from: a stored run asks no node"):
        parsed(from_run=str(tmp_path), **{field: given})


def test_what_judges_may_stand_beside_a_stored_run(tmp_path):
    """Thresholds, the launch files and the form of the report."""
    beside = {"settings", "launch", "backend", "prune", "need", "fail_on_warn", "require_all", "baseline", "json"}
    assert not any(OPTIONS[field].is_live for field in beside)
    assert parsed(from_run=str(tmp_path), backend="gloo", prune=True).backend == "gloo"


@pytest.mark.parametrize(("field", "name"), [("hosts", "--hosts"), ("from_run", "--from")])
def test_an_empty_value_is_an_unset_variable_of_a_script(field, name):
    """It must not mean this machine, nor this folder."""
    with pytest.raises(UsageError, match=f"{name} is empty"):
        parsed(**{field: " "})


def test_the_full_profile_measures_everything():
    """All collectives, and each GPU alone; both can be had without it."""
    full = parsed(profile="full")
    assert full.burn_in
    assert full.sweep.operations == OPERATIONS
    assert parsed(profile="full", bench_op="broadcast").sweep.operations == ("broadcast",)
    assert (parsed().burn_in, parsed(bench_burn_in=True).burn_in) == (False, True)


def test_the_launchers_are_those_that_can_start_a_job():
    """They are looked up in the registry when they are needed."""
    choices = OPTIONS["launcher"].choices
    assert tuple(choices) == launchers.startable()
    assert (len(choices), "torchrun" in choices, "slurm" in choices) == (len(launchers.startable()), True, False)


def test_tests_of_vendors_have_levels_and_time():
    """The whole run may take so much longer."""
    asked = parsed(vendor_tests="dcgmi:1, nvbandwidth")
    assert asked.tests_of_vendors == (("dcgmi", "1", 90.0), ("nvbandwidth", "", 240.0))
    assert asked.deadline_seconds == parsed().deadline_seconds + 330.0
    assert parsed(vendor_tests="dcgmi").tests_of_vendors[0][1] == "2"
