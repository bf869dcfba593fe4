"""Tests of preflight.node.calls.mounts."""

import os

from preflight.node.calls import mounts


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


def test_a_refusal_is_an_answer():
    """A server that does not let us in is up."""
    assert mounts.trouble(PermissionError(13, "Permission denied")) == ""
    assert mounts.trouble(OSError(116, "Stale file handle")) == "Stale file handle"
