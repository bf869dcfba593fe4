"""Is a file found under the name by which another one speaks of it?"""

from __future__ import annotations

import pytest

from preflight.launch.reading.bundle import Bundle, beside, expanded, read_file, resolved
from preflight.said.errors import UsageError


@pytest.mark.parametrize("path", ["conf/ds.json", "./conf/ds.json", "ds.json", "elsewhere/ds.json"])
def test_a_given_file_is_known_by_its_path_and_by_its_end(path):
    """As it is written, or by its last part where that is one file's alone."""
    assert resolved(Bundle({"conf/ds.json": "{}"}), "run.sh", path) == "conf/ds.json"


def test_two_files_of_one_name_are_told_apart():
    """By the folder of the script that speaks of them, or not at all."""
    bundle = Bundle({"a/ds.json": "{}", "b/ds.json": "{}"})
    assert resolved(bundle, "a/run.sh", "ds.json") == "a/ds.json"
    assert resolved(bundle, "c/run.sh", "ds.json") is None


def test_a_file_beside_the_script_is_read(tmp_path):
    """Only where the disk may be looked at."""
    (tmp_path / "env.sh").write_text("export A=1\r\n")
    script = str(tmp_path / "run.sh")
    assert beside(Bundle(), script, "env.sh", look_beside=True) == "export A=1\n"
    assert beside(Bundle(), script, "env.sh", look_beside=False) is None


def test_patterns_and_files_that_are_not_there(tmp_path):
    """One line each."""
    (tmp_path / "n0.sh").write_text("")
    assert expanded([str(tmp_path / "*.sh")]) == [str(tmp_path / "n0.sh")]
    with pytest.raises(UsageError, match="matches no file"):
        expanded([str(tmp_path / "*.yaml")])
    with pytest.raises(UsageError, match="not a file"):
        read_file(str(tmp_path))
