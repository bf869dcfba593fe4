"""Tests of preflight.node.calls.storage.mounts."""

import os
import time

from preflight.node.calls.storage import mounts
from tests.node.agent.test_within import spinning


def test_only_file_systems_of_the_network_are_asked(tmp_path):
    """One that is gone says so; one that answers says nothing; the machine's own are left alone."""
    folder = tmp_path / "with blank"
    folder.mkdir()
    table = tmp_path / "mounts"
    escaped = os.fspath(folder).replace(" ", "\\040")
    table.write_text(f"proc /proc proc rw 0 0\nfiler:/a {escaped} nfs4 rw 0 0\nfiler:/b /nonexistent/b nfs rw 0 0\n")
    assert mounts.network_mounts(os.fspath(table)) == [
        {"path": os.fspath(folder), "kind": "nfs4", "source": "filer:/a", "trouble": ""},
        {"path": "/nonexistent/b", "kind": "nfs", "source": "filer:/b", "trouble": "No such file or directory"},
    ]


def test_what_is_mounted_when_it_is_used_says_so(tmp_path):
    """Below a place of autofs one node has it now and another has not; a systemd automount has both at one path."""
    table = tmp_path / "mounts"
    text = "auto.home /home autofs rw 0 0\nsystemd-1 /data autofs rw 0 0\n"
    table.write_text(text + "".join(f"filer:/x {path} nfs4 rw 0 0\n" for path in ("/home/ann", "/data", "/homes")))
    found = mounts.network_mounts(os.fspath(table))
    assert [each["path"] for each in found if each.get("is_automatic")] == ["/home/ann", "/data"]


def test_a_busy_node_waits_for_its_own_processors_and_not_for_the_server(tmp_path, monkeypatch):
    """A question that still works is asked on in the spare time; one that hangs in the kernel is given up."""
    monkeypatch.setattr(mounts, "SECONDS", 0.2)
    monkeypatch.setattr(mounts, "touch", lambda path: spinning(0.5) if path == "/busy" else time.sleep(60))
    table = tmp_path / "mounts"
    table.write_text("filer:/a /busy nfs4 rw 0 0\nfiler:/b /hangs nfs rw 0 0\n")
    busy, hangs = mounts.network_mounts(os.fspath(table), spare_seconds=30.0)
    assert (busy["trouble"], hangs["trouble"]) == ("", "no answer within 0.2 s")
    assert mounts.network_mounts(os.fspath(table))[0]["trouble"] == "no answer within 0.2 s"


def test_a_refusal_is_an_answer():
    """A server that does not let us in is up."""
    assert mounts.trouble(PermissionError(13, "Permission denied")) == ""
    assert mounts.trouble(OSError(116, "Stale file handle")) == "Stale file handle"
