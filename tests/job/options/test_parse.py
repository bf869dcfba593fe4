"""Is what the user asked for taken as meant, and anything else refused by name?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from preflight.job.options.options import OPTIONS, Options
from preflight.job.options.parse import checked, parse_options
from preflight.judge.settings import BenchSettings
from preflight.reach.host import Host
from preflight.said.errors import PreflightError, UsageError


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
        checked(Options(**fields))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_more_hosts_than_were_typed_are_refused_and_more_than_a_cluster_counts_are_missing():
    """A cluster that counts fewer nodes than are needed was asked as it should be; its nodes are named."""
    typed, counted = (
        tuple(Host(f"n{one}", f"10.0.0.{one}", transport=way) for one in (1, 2)) for way in ("ssh", "ray")
    )
    for need in (0, 3):
        with pytest.raises(UsageError, match=f"--need {need}: wanted a number from 1 to 2, the hosts given"):
            checked(Options(hosts=typed, need=need))
    with pytest.raises(PreflightError, match=r"--need 3: only 2 are there: n\[1-2\]") as caught:
        checked(Options(hosts=counted, need=3))
    assert not isinstance(caught.value, UsageError)
    with pytest.raises(UsageError, match="--need 0: wanted a number from 1 to 2"):
        checked(Options(hosts=counted, need=0))
    for hosts in (typed, counted):
        assert checked(Options(hosts=hosts, need=2)).need == 2


def test_a_report_folder_that_is_a_file_is_refused(tmp_path):
    """Before anything runs; a folder may exist or not."""
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UsageError, match="exists and is not a folder"):
        checked(Options(report_dir=file))
    assert checked(Options(report_dir=tmp_path)).folder == tmp_path
    assert checked(Options(report_dir=tmp_path / "new")).folder == tmp_path / "new"


def test_a_stored_run_that_is_a_file_is_refused(tmp_path):
    """Before pytest starts."""
    (tmp_path / "report.json").touch()
    with pytest.raises(UsageError, match=r"report\.json: not a folder"):
        checked(Options(from_run=tmp_path / "report.json"))
    assert checked(Options(from_run=tmp_path)).from_run == tmp_path
    with pytest.raises(UsageError, match="--dry-run with --from"):
        checked(Options(from_run=tmp_path, dry_run=True))


def parsed(**values) -> Options:
    return parse_options(values, command=("preflight",))


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
