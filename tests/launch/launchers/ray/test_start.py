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
