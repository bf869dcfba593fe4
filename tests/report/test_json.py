"""Is report.json plain, whole, and read again only when it is ours?"""

import json
import math
import os

import msgspec
import pytest

from preflight.report.json import read_json, write_json
from preflight.said.errors import UsageError


def test_a_report_is_read_again(tmp_path, full_report):
    """What was written is what is read, also over an older file."""
    path = tmp_path / "report.json"
    path.write_text("{}")
    write_json(path, full_report)
    assert read_json(path) == full_report
    assert os.listdir(tmp_path) == ["report.json"]


def test_hostile_text_leaves_plain_ascii_that_strict_parsers_take(tmp_path, hostile_report):
    """No control byte stands in the file, two parsers agree on it, and it is readable again."""
    path = tmp_path / "report.json"
    write_json(path, hostile_report)
    data = path.read_bytes()
    assert all(byte == 0x0A or 0x20 <= byte <= 0x7E for byte in data)
    assert json.loads(data) == msgspec.json.decode(data)
    assert len(read_json(path).findings) == len(hostile_report.findings)


def test_a_number_that_is_none_leaves_the_old_file(tmp_path, full_report):
    """A bug of ours costs the new report, not the one before it."""
    path = tmp_path / "report.json"
    write_json(path, full_report)
    with pytest.raises(ValueError, match="not finite"):
        write_json(path, msgspec.structs.replace(full_report, stages={"mesh": math.nan}))
    assert read_json(path) == full_report


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"null", b"NaN", b"\xff\xfe", b"[" * 100_000, b'{"schema": 1, "schema": 1}',
        b'{"schema": NaN}',
        b'{"schema": 1e999}', b'{"schema": ' + b"9" * 5000 + b"}", b'{"schema": "\\u001b[2J"}',
        b'{"schema": 1, "\\n": 0}',
    ],
)  # fmt: skip
def test_a_file_that_is_not_ours_is_a_usage_error(tmp_path, data):
    """One printable line that names the file, and never another exception."""
    path = tmp_path / "report.json"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=r"report\.json") as caught:
        read_json(path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["none.json", ".", "a\0b", "x" * 5000, "\udc80"])
def test_a_file_that_cannot_be_read_is_a_usage_error(tmp_path, name):
    """Missing, a folder, no file name at all."""
    with pytest.raises(UsageError):
        read_json(tmp_path / name)
