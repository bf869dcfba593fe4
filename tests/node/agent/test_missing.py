"""Tests of preflight.node.agent.missing."""

import os

import pytest

from preflight.node.agent.missing import missing_because, read_text, read_text_or_missing


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
