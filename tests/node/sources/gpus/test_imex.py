"""Tests of preflight.node.sources.imex: the daemon, its file of nodes, and both forms of what it says."""

import json

import pytest

from preflight.node.sources.gpus import imex

pytestmark = pytest.mark.unit
# The manual's form; a column more since driver 570.
TEXT = """Connectivity Table Legend:
I - Invalid - Node wasn't reachable, no connection status available
C - Connected - Ready for operation

11/12/2024 06:08:10.580
Nodes:
Node #0   * 172.27.58.70 *   - {state}                - Version: 565.37
Node #1   - 172.27.58.71     - UNAVAILABLE          - Version: N/A

 Nodes From\\To  0   1
       0        C   I
Domain State: {domain}
"""


def program(folder, script):
    """An nvidia-imex-ctl."""
    path = folder / imex.PROGRAM
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize("form", ["json", "text"])
def test_both_forms_tell_the_state_and_who_is_not_ready(form):
    """Whether this nvidia-imex-ctl knows -j or not."""
    nodes = {"0": {"status": "READY", "host": "172.27.58.70"}, "1": {"status": "UNAVAILABLE", "host": "172.27.58.71"}}
    texts = {"json": json.dumps({"nodes": nodes, "status": "DEGRADED"}), "text": TEXT}
    read = {"json": imex.of_json, "text": imex.of_text}[form]
    text = texts[form] if form == "json" else TEXT.format(state="READY", domain="DEGRADED")
    assert read(text) == {"state": "DEGRADED", "not_ready": ["172.27.58.71 UNAVAILABLE"]}


def test_a_program_without_json_is_asked_for_its_text(tmp_path):
    """An older one prints its usage for -j."""
    text = TEXT.format(state="READY", domain="UP")
    path = program(tmp_path, f"[ $# = 1 ] || {{ echo unknown option; exit 1; }}\ncat <<'E'\n{text}E")
    assert imex.status(path)["state"] == "UP"


@pytest.mark.parametrize(
    "text", ["", "Failed to connect to the IMEX server", '{"nodes": {}, "stat', "[]", '{"nodes": []}']
)
def test_what_tells_no_state_is_missing(text, tmp_path):
    """With what was printed, and never as ready."""
    found = imex.status(program(tmp_path, f"cat <<'E'\n{text}\nE"))
    assert found["state"]["kind"] == found["not_ready"]["kind"] == "failed"


@pytest.mark.parametrize("at", range(0, 384, 16))
def test_a_state_that_was_cut_short_is_missing(at):
    """Wherever the text or the JSON ends; a node that is not ready would be lost with it."""
    text = TEXT.format(state="READY", domain="UP")
    nodes = {"0": {"status": "READY", "host": "172.27.58.70"}, "1": {"status": "UNAVAILABLE", "host": "172.27.58.71"}}
    document = json.dumps({"nodes": nodes, "status": "DEGRADED"})
    for read, whole in ((imex.of_text, text), (imex.of_json, document)):
        if at < whole.rindex("UP" if read is imex.of_text else "}"):
            with pytest.raises(ValueError, match=imex.PROGRAM):
                read(whole[:at])


@pytest.mark.parametrize("loss", ["removed", "empty", "truncated", "denied"])
def test_a_lost_file_of_nodes_is_missing(loss, tmp_path):
    """No list of nodes would agree with everybody's."""
    path = tmp_path / "nodes_config.cfg"
    path.write_text("# rack 7\n10.0.0.2\n")
    if loss == "removed":
        path.unlink()
    elif loss == "denied":
        path.unlink()
        path.mkdir()  # root reads every file: a folder is what nobody reads
    else:
        path.write_text("" if loss == "empty" else "# rack")
    assert "missing" in imex.nodes(str(path))


def test_no_program_is_no_answer(tmp_path):
    """A container rarely has it."""
    assert imex.status(str(tmp_path))["state"]["kind"] == "absent"


def test_the_file_of_nodes_is_read_without_its_comments(tmp_path):
    """One node a line, in any order."""
    path = tmp_path / "nodes_config.cfg"
    path.write_text("# rack 7\n10.0.0.2\n\n10.0.0.1  # tray 1\n")
    assert imex.nodes(str(path)) == ["10.0.0.1", "10.0.0.2"]
    path.write_text("# rack 7\n")
    assert imex.nodes(str(path))["kind"] == "failed"
    assert imex.nodes(str(tmp_path / "none"))["kind"] == "absent"


@pytest.mark.parametrize(("comm", "runs"), [("nvidia-imex", True), ("nvidia-imex-ctl", False), ("python3", False)])
def test_the_daemon_is_known_by_its_whole_name(comm, runs, tmp_path):
    """The program that asks it is another; a container that sees none may not see it."""
    (tmp_path / "17").mkdir()
    (tmp_path / "17/comm").write_text(f"{comm}\n")
    assert imex.is_running(str(tmp_path), sees_processes=True) is runs
    hidden = imex.is_running(str(tmp_path), sees_processes=False)
    assert hidden is True if runs else hidden["kind"] == "absent"
