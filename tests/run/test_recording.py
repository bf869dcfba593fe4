"""Tests of preflight.run.recording."""

import pytest

from preflight.job.collect.record import Entry
from preflight.run import recording
from preflight.said.errors import UsageError


def test_files_folders_and_links_are_written(tmp_path):
    """Each as the node has it, bytes included."""
    entries = [
        Entry(path="sys/class/net/eth0", link="/sys/devices/net/eth0"),
        Entry(path="sys/devices/net/eth0/mtu", text="9000\n"),
        Entry(path="sys/devices/config", base64="/wA="),
        Entry(path="sys/bus", folder=True),
    ]
    recording.write(entries, tmp_path / "node1")
    root = tmp_path / "node1/sys"
    assert (root / "devices/net/eth0/mtu").read_text() == "9000\n"
    assert (root / "devices/config").read_bytes() == b"\xff\x00"
    assert (root / "bus").is_dir()
    assert str((root / "class/net/eth0").readlink()) == "/sys/devices/net/eth0"


def test_nothing_is_written_through_a_link(tmp_path):
    """A node that names a link and a file behind it gets a folder of that name, and touches nothing else."""
    outside = tmp_path / "outside"
    outside.mkdir()
    entries = [Entry(path="a", link=str(outside)), Entry(path="a/file", text="x")]
    recording.write(entries, tmp_path / "node1")
    assert list(outside.iterdir()) == []
    assert (tmp_path / "node1/a/file").read_text() == "x"


def test_a_link_behind_a_link_is_not_written_through_it(tmp_path):
    """Links are made last, and none through another."""
    outside = tmp_path / "outside"
    outside.mkdir()
    recording.write([Entry(path="a", link=str(outside)), Entry(path="a/b", link="/etc")], tmp_path / "node1")
    assert list(outside.iterdir()) == []


def test_an_earlier_recording_is_not_mixed_with(tmp_path):
    """A folder that holds something is refused."""
    (tmp_path / "node1").mkdir()
    (tmp_path / "node1/file").write_text("")
    with pytest.raises(UsageError, match="another folder"):
        recording.write([], tmp_path / "node1")


@pytest.mark.parametrize(("node", "name"), [("node1", "node1"), ("../x", "_x"), ("k8s:a/b", "k8s:a_b"), ("..", "node")])
def test_a_node_has_a_folder_of_its_name(node, name):
    """Whatever the name holds."""
    assert recording.folder_name(node) == name
