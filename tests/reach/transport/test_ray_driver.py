"""Do the drivers of Ray say in one line why they cannot begin? tests/e2e/test_ray.py has them on a cluster."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from preflight.reach.transport.ray_driver import LIST, RELAY, TASKS

PLAN = json.dumps({"cluster": "127.0.0.1:1", "node": "127.0.0.1", "nodes": {"127.0.0.1": "n"}, "words": ["true"]})
SHADOW = "import sys; sys.modules['ray'] = None\n"


@pytest.mark.parametrize(("program", "word"), [(LIST, "127.0.0.1:1"), (TASKS, PLAN), (RELAY, PLAN)])
def test_a_head_that_is_not_there_is_said_at_once(program, word):
    """ray.init itself would try for a minute."""
    pytest.importorskip("ray")
    done = subprocess.run(
        [sys.executable, "-c", program, word], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 255
    assert done.stderr.splitlines()[-1].startswith("ray: nothing answers at 127.0.0.1:1: ")


@pytest.mark.parametrize("program", [LIST, TASKS, RELAY])
def test_a_python_without_ray_is_said(program):
    """In one line, and not by a traceback."""
    done = subprocess.run(
        [sys.executable, "-c", SHADOW + program, PLAN], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 255
    assert done.stderr.startswith("ray: ")
    assert "ray" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
