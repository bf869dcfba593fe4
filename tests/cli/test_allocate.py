"""Is slurm:PARTITION/COUNT asked of salloc, and does whatever it gives come back?"""

from __future__ import annotations

import pytest

from preflight.cli.allocate import Request, gpus_of_each, of_what_was_given, request_in, run_inside, why_too_few
from preflight.said.errors import PreflightError

GIVES = 'while [ "$1" != -c ]; do shift; done\n: > "$3"\nexit 3\n'


@pytest.mark.parametrize(
    ("hosts", "request_"),
    [
        ("slurm:gpu-a/16", Request("gpu-a", 16)),
        *(
            (text, None)
            for text in ("slurm", "slurm:node[1-2]", "slurm:a/0", "slurm:/4", "slurm:-x;y/4", "node1", None)
        ),
    ],
)
def test_a_partition_and_a_number_are_a_request(hosts, request_):
    """Names of nodes are none."""
    assert request_in(hosts) == request_


def test_whole_nodes_are_asked_for_and_not_waited_for_without_end():
    """The command stands behind a shell that notes that it was granted."""
    words = Request("gpu", 4).words("/m", ["preflight", "run"], gpus="")
    assert words[:6] == ["salloc", "--quiet", "--partition=gpu", "--nodes=4", "--exclusive", "--immediate=60"]
    assert words[6:8] == ["sh", "-c"]
    assert words[9:] == ["/m", "preflight", "run"]
    assert "--gpus-per-node=8" in Request("gpu", 4).words("/m", ["preflight", "run"], gpus="8")


@pytest.mark.parametrize(
    ("resources", "gpus"),
    [
        ("gpu:8\ngpu:8\n", "8"),
        ("gpu:h100:8(S:0-1),nvme:2\ngpu:h100:8(S:0-1)\n", "8"),
        ("gpu:a100:4(S:0),gpu:v100:2(S:1)\n", "6"),
        ("gpu:8\ngpu:4\n", ""),
        ("(null)\n", ""),
        ("gpu:8\n(null)\n", ""),
        ("mps:400,shard:16\n", ""),
        ("", ""),
    ],
)
def test_the_gpus_of_whole_nodes_are_asked_for(resources, gpus):
    """Where all nodes have as many; a merely exclusive job's steps would have none."""
    assert gpus_of_each(resources) == gpus


@pytest.mark.parametrize(("body", "code"), [(GIVES, 3), ("exit 1\n", None)])
def test_the_exit_code_is_that_of_the_run_and_no_nodes_are_an_error(tmp_path, monkeypatch, body, code):
    """salloc's own 1 is not a check that failed."""
    for name, text in {"salloc": body, "sinfo": "echo 'n1|idle|none'; echo 'n2|mixed-|none'\n"}.items():
        (tmp_path / name).write_text("#!/bin/sh\n" + text)
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    if code is None:
        with pytest.raises(PreflightError, match="gave no 2 nodes of gpu"):
            run_inside(Request("gpu", 2), ["run"])
    else:
        assert run_inside(Request("gpu", 2), ["run"]) == code


IN_SERVICE = "n1|idle|none\nn2|allocated|none\nn3|mixed-|none\nn4|planned|none\n"


@pytest.mark.parametrize(
    ("partition", "why"),
    [
        (IN_SERVICE, ""),  # busy ones may come free while we wait
        (
            IN_SERVICE.replace("n4|planned|none", "n4|drained|bad|dimm"),
            "3 of its 4 nodes are in service: n4 is drained",
        ),
        (IN_SERVICE.replace("n1|idle", "n1|idle*"), "3 of its 4 nodes are in service: n1 does not respond"),
        (IN_SERVICE.replace("n1|idle|none", "n1|down*|Not responding"), "service: n1 does not respond"),
        ("n1|idle|none\n", "1 of its 1 nodes are in service"),
        ("", "no partition gpu is known here"),
        ("".join(f"n{number}|maint|none\n" for number in range(12)), "n7 is maint and 4 more"),
    ],
)
def test_a_partition_without_enough_nodes_in_service_is_told_with_its_reasons(partition, why):
    """Nobody waits for nodes that do not come by waiting."""
    told = why_too_few(Request("gpu", 4), partition)
    assert (why in told, bool(told)) == (True, bool(why))


@pytest.mark.parametrize(
    ("word", "inside"),
    [
        ("--hosts=slurm:gpu/4", "--hosts=slurm"),
        ("slurm:gpu/4", "slurm"),
        ("--env=A=b", "--env=A=b"),
        ("--profile=quick", "--profile=quick"),
    ],
)
def test_in_the_allocation_the_hosts_are_those_of_it(word, inside):
    """Whether the option and its value are one word or two; all others stay, for hosts given twice are all judged."""
    assert of_what_was_given(word) == inside
