"""Are more nodes than can be connected at a time all asked and connected, group by group?"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys

import pytest

from preflight.run.turns import groups
from tests.bench.stub_cluster import cluster

NODES, FILES = 24, 150  # ten connections at a time


@pytest.mark.parametrize(("count", "most"), [(2, 10), (10, 9), (11, 10), (100, 7), (4999, 35)])
def test_every_node_is_in_one_group_and_none_is_alone(count, most):
    """Groups hold nodes from the whole list, and no more than asked for."""
    names = [f"node{number}" for number in range(count)]
    made = groups(names, most)
    assert sorted(name for group in made for name in group) == sorted(names)
    assert all(2 <= len(group) <= max(2, most) for group in made)
    assert all(abs(len(one) - len(made[0])) <= 1 for one in made)


def run(tmp_path, faults=None):
    """One run over more nodes than the process may have connections to."""
    with cluster(NODES, tmp_path, faults=faults) as environment:
        argv = [sys.executable, "-m", "preflight", "run", f"--hosts=node[1-{NODES}]", "--profile=quick"]
        done = subprocess.run(
            [*argv, f"--report-dir={tmp_path}/report"],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)),
        )
    return done, json.loads((tmp_path / "report" / "report.json").read_text())


def test_with_few_files_all_nodes_are_judged_and_the_bad_ones_named(tmp_path):
    """Dead and lying ones cost nobody else a verdict; each node is connected with those of its group."""
    done, report = run(tmp_path, {"node5": "dead", "node6": "lying"})
    assert done.returncode == 3, done.stdout + done.stderr
    found = [finding for finding in report["findings"] if finding["verdict"] not in ("pass", "skip")]
    bad = {name for finding in found for name in finding["nodes"]}
    assert bad == {"node5", "node6"}
    assert report["ledger"]["judged"] == report["ledger"]["expected"]
    assert report["mesh"]["ok"] == report["mesh"]["edges"] > 21
    assert report["mesh"]["rendezvous"]["tried"] == NODES - 3
    assert any("10 were visited at a time" in note for note in report["notes"])
    assert len(list((tmp_path / "report" / "facts").iterdir())) == NODES - 2
