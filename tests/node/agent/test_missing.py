"""Tests of preflight.node.agent.missing."""

import os

import pytest

from preflight.node.agent.missing import missing_because, must_read, read_lines, read_text, read_text_or_missing


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FileNotFoundError(2, "No such file or directory"), "absent"),
        (PermissionError(13, "Permission denied"), "denied"),
        (OSError(22, "Invalid argument"), "failed"),
    ],
)
def test_the_kind_follows_from_the_error(error, kind):
    """An absent file, one that we may not read and one that cannot be read are three different things."""
    assert missing_because(error) == {"missing": error.strerror, "kind": kind}


def test_bytes_that_are_no_text_become_escapes(tmp_path):
    """A file with arbitrary bytes gives text that can be sent."""
    (tmp_path / "fw_ver").write_bytes(b"20.\xff\n")
    assert read_text(os.fspath(tmp_path / "fw_ver")) == "20.\\xff"


def test_an_unreadable_file_is_a_missing_value(tmp_path):
    """Reading what is not there gives the reason in the place of the value."""
    assert read_text_or_missing(os.fspath(tmp_path / "nothing"))["kind"] == "absent"


@pytest.mark.parametrize(("text", "reason"), [(None, "No such file"), ("", "is empty"), ("\n", "is empty")])
def test_what_every_kernel_has_was_not_measured_where_it_is_not_there(tmp_path, text, reason):
    """A file that cannot be absent is a failure, and not a thing that this node does without."""
    if text is not None:
        (tmp_path / "meminfo").write_text(text)
    told = must_read(str(tmp_path / "meminfo"))
    assert told["kind"] == "failed"
    assert reason in told["missing"]


def test_what_every_kernel_has_is_read(tmp_path):
    """As any other text."""
    (tmp_path / "cmdline").write_text("ro quiet\n")
    assert must_read(str(tmp_path / "cmdline")) == "ro quiet"


@pytest.mark.parametrize(
    ("data", "said"), [("4X\n", "4X"), ("\n", ""), ("4X", "was cut short"), ("", "is empty"), ("a\nb", "was cut short")]
)
def test_a_file_that_does_not_end_its_last_line_was_cut_short(tmp_path, data, said):
    """The kernel ends every line: what has no end may be the beginning of something else."""
    path = tmp_path / "value"
    path.write_text(data)
    found = read_lines(os.fspath(path))
    assert found == said if data.endswith("\n") else found == {"missing": f"{path} {said}", "kind": "failed"}
