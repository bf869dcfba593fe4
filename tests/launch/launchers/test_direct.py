"""Are ranks that no launcher starts told what torch reads?"""

from __future__ import annotations

import pytest

from tests.launch.test_job import FOUR, job, processes


def test_direct_sets_what_torch_reads():
    """One process a rank, with the env:// variables."""
    first, second = processes("direct", "node2")
    assert (first["name"], second["name"]) == ("rank2", "rank3")
    assert second["argv"] == ["{python}", "{script}"]
    variables = {name: value for name, value in second["environment"].items() if "PREFLIGHT" not in name}
    assert variables == {
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29511",
        "OMP_NUM_THREADS": "1",
    }


def test_every_rank_of_the_job_is_one_process_of_its_own():
    """Numbered through over the nodes, and counted anew on each."""
    told = [process["environment"] for node in ("node1", "node2") for process in processes("direct", node)]
    assert [variables["RANK"] for variables in told] == ["0", "1", "2", "3"]
    assert [variables["LOCAL_RANK"] for variables in told] == ["0", "1", "0", "1"]
    assert {(variables["MASTER_ADDR"], variables["MASTER_PORT"]) for variables in told} == {("10.0.0.1", "29511")}
    assert {variables["WORLD_SIZE"] for variables in told} == {str(FOUR.world_size)}


@pytest.mark.parametrize(("node", "ranks"), [("node1", ["0", "1", "2"]), ("node2", ["3"])])
def test_nodes_may_start_different_numbers_of_ranks(node, ranks):
    """Nothing but the variables says how many there are."""
    uneven = job("node1", "node1", "node1", "node2")
    told = [process["environment"] for process in processes("direct", node, uneven)]
    assert [variables["RANK"] for variables in told] == ranks
    assert {variables["LOCAL_WORLD_SIZE"] for variables in told} == {str(len(ranks))}
