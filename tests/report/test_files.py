"""Does a reader ever see half a file?"""

import os
import stat

import pytest

from preflight.report.files import write_atomically


def test_the_file_is_replaced_and_nothing_else_is_left(tmp_path):
    """The old content gives way to the new, and the folder holds one file."""
    path = tmp_path / "report.json"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["report.json"]


def test_the_mode_is_that_of_the_users_other_files(tmp_path):
    """0644 less the umask, unlike the 0600 of temporary files."""
    old = os.umask(0o027)
    try:
        write_atomically(tmp_path / "f", b"")
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(tmp_path / "f").st_mode) == 0o640


def test_a_link_in_place_of_the_file_is_replaced_and_not_followed(tmp_path):
    """Whoever plants a link to another file of the user gains nothing."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "report.json").symlink_to(victim)
    write_atomically(tmp_path / "report.json", b"new")
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "report.json").is_symlink()


def test_a_failure_leaves_the_old_file_and_no_temporary_one(tmp_path):
    """A folder in its place cannot be replaced."""
    (tmp_path / "f" / "x").mkdir(parents=True)
    with pytest.raises(OSError):
        write_atomically(tmp_path / "f", b"new")
    assert os.listdir(tmp_path) == ["f"]


def test_a_missing_folder_is_an_error(tmp_path):
    """The folder of the run is made by whoever starts the run."""
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "none" / "f", b"")
