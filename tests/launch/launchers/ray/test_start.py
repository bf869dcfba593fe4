"""The reference job on a Ray cluster."""

from __future__ import annotations

import json

from preflight.launch.job import ALL_RANKS
from preflight.launch.launchers import start_job
from preflight.launch.launchers.ray.command import RAY
from tests.launch.test_job import job


def test_the_reference_job_is_a_task_for_each_rank():
    """ray start on every node, which serves; a driver on the first, which knows every rank's node and number."""
    started = start_job("ray", job("a", "a", "b"), 29501)
    assert [process["name"] for process in started["a"]] == ["a: ray", ALL_RANKS]
    assert "--head" in started["a"][0]["argv"]
    assert "--address=10.0.0.1:29501" in started["b"][0]["argv"]
    assert all(started[node][0]["serves"] for node in ("a", "b"))
    plan = json.loads(started["a"][1]["environment"]["PREFLIGHT_RANKS"])
    assert [(node, own["RANK"], own["LOCAL_RANK"]) for node, own in plan["ranks"]] == [
        ("a", "0", "0"),
        ("a", "1", "1"),
        ("b", "2", "0"),
    ]


def test_it_blames_the_rank_that_the_driver_names():
    """Its number and how it ended."""
    (found,) = RAY.blames.failed.finditer("[1] Traceback\nrank 1 ended with -9\n")
    assert (found["rank"], found["exit"]) == ("1", "-9")


def test_every_node_serves_its_ranks_and_leads_to_the_head():
    """The head listens at the given port and keeps its files in the run's folder; a rank runs the script left there."""
    started = start_job("ray", job("a", "a", "b"), 29501)
    head, worker = started["a"][0]["argv"], started["b"][0]["argv"]
    assert {"--node-ip-address=10.0.0.1", "--port=29501", "--temp-dir={scratch}"} <= set(head)
    assert "--head" not in worker
    assert [[word for word in words if "cpus" in word] for words in (head, worker)] == [
        ["--num-cpus=2"],
        ["--num-cpus=1"],
    ]
    assert [json.loads(words[-1].partition("=")[2]) for words in (head, worker)] == [
        {"preflight-a": 1},
        {"preflight-b": 1},
    ]
    (driver,) = started["a"][1:]
    plan = json.loads(driver["environment"]["PREFLIGHT_RANKS"])
    assert (plan["nodes"], plan["address"], driver["environment"]["PREFLIGHT_HEAD"]) == (
        ["a", "b"],
        "10.0.0.1",
        "10.0.0.1:29501",
    )
    folder, _, script = plan["file"].rpartition("/")
    assert folder == "{scratch}"
    assert set(started["a"][0]["shared"]) == set(started["b"][0]["shared"]) == {script}
    assert [own["WORLD_SIZE"] for _, own in plan["ranks"]] == ["3", "3", "3"]
    assert [own["LOCAL_WORLD_SIZE"] for _, own in plan["ranks"]] == ["2", "2", "1"]
