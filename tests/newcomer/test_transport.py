"""Is a transport really added by a file and a line of the registry? A small one is, to a copy of the program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.newcomer.copy import copied, touched

CONTAINER = ["unshare", "--uts", "--net", "--mount", "sh", "-c", "hostname trainer-0 && echo up && exec sleep 300"]


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """The copy with the transport of transport.diff."""
    return copied(tmp_path_factory.mktemp("transport"), "transport.diff")


@pytest.fixture
def container():
    """A process in namespaces of its own, with another host name."""
    if os.geteuid() != 0 or subprocess.run([*CONTAINER[:-3], "true"], capture_output=True, check=False).returncode:
        pytest.skip("namespaces may not be made here")
    process = subprocess.Popen(CONTAINER, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def preflight(house: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of the copy, ended."""
    return subprocess.run(
        [sys.executable, "-m", "preflight", *words], cwd=house, capture_output=True, text=True, timeout=120, check=False
    )


def test_two_files_are_touched():
    """Its own, and the registry."""
    assert touched("transport.diff") == [
        "preflight/reach/transport/__init__.py",
        "preflight/reach/transport/nsenter.py",
    ]


def test_facts_come_through_it(house, container):
    """From inside the namespaces: the container's host name, and its one interface."""
    done = preflight(house, "facts", f"--hosts=nsenter:{container.pid}", f"--python={sys.executable}", "--json")
    assert done.returncode == 0, done.stderr
    (facts,) = json.loads(done.stdout).values()
    assert facts["subjects"]["identity"]["hostname"] == "trainer-0"
    assert [interface["name"] for interface in facts["subjects"]["network"]["interfaces"]] == ["lo"]


def test_a_node_that_is_not_reached_is_explained_in_its_words(house, tmp_path):
    """Not in ssh's; with the way in that a person would try."""
    report = tmp_path / "report"
    done = preflight(
        house, "run", "--hosts=nsenter:999999999", "--profile=quick", f"--report-dir={report}", "--deadline=30"
    )
    assert done.returncode == 3, done.stdout + done.stderr
    (found,) = [
        finding
        for finding in json.loads((report / "report.json").read_text())["findings"]
        if finding["check"] == "reach.every_node_answers"
    ]
    assert found["nodes"] == ["nsenter:999999999"]
    assert "nsenter:" in found["message"]
    assert found["fix"].startswith("`nsenter --target=999999999")


def test_its_hosts_stand_in_help_and_are_checked(house):
    """By the form that it names itself."""
    assert "nsenter:PID" in preflight(house, "run", "--help").stdout
    done = preflight(house, "facts", "--hosts=nsenter:trainer")
    assert done.returncode == 4
    assert "wanted nsenter:PID" in done.stderr
