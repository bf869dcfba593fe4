"""Is slurm:PARTITION/COUNT asked of salloc, and does whatever it gives come back?"""

from __future__ import annotations

import pytest

from preflight.cli.allocate import Request, request_in, run_inside
from preflight.errors import PreflightError

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
    words = Request("gpu", 4).words("/m", ["preflight", "run"])
    assert words[:6] == ["salloc", "--quiet", "--partition=gpu", "--nodes=4", "--exclusive", "--immediate=60"]
    assert words[6:8] == ["sh", "-c"]
    assert words[9:] == ["/m", "preflight", "run"]


@pytest.mark.parametrize(("body", "code"), [(GIVES, 3), ("exit 1\n", None)])
def test_the_exit_code_is_that_of_the_run_and_no_nodes_are_an_error(tmp_path, monkeypatch, body, code):
    """salloc's own 1 is not a check that failed."""
    tool = tmp_path / "salloc"
    tool.write_text("#!/bin/sh\n" + body)
    tool.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    if code is None:
        with pytest.raises(PreflightError, match="gave no 2 nodes of gpu"):
            run_inside(Request("gpu", 2), ["run"])
    else:
        assert run_inside(Request("gpu", 2), ["run"]) == code
