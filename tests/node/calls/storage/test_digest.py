"""Tests of preflight.node.calls.storage.digest."""

import os

import pytest

from preflight.node.calls.storage import digest

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n"


def tree(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return digest.digest_of(os.fspath(folder))


def test_equal_trees_are_equal_and_others_are_not(tmp_path):
    """Names and contents count; where the tree lies and when it was written do not."""
    first = tree(tmp_path / "a", x="1", y="2")
    assert first == tree(tmp_path / "b", x="1", y="2")
    assert (first["file_count"], first["bytes"], first["is_whole"]) == (2, 2, True)
    for other in ({"x": "1", "y": "3"}, {"x": "1", "z": "2"}, {"x": "12", "y": ""}):
        assert tree(tmp_path / f"c{len(os.listdir(tmp_path))}", **other)["digest"] != first["digest"]


def test_what_git_and_python_write_beside_the_code_does_not_count(tmp_path):
    """Two clones of one commit differ there, and are the same code."""
    first = tree(tmp_path / "a", x="1")
    (tmp_path / "a" / ".git").mkdir()
    (tmp_path / "a" / ".git" / "index").write_text("other")
    assert digest.digest_of(os.fspath(tmp_path / "a")) == first


def test_a_pointer_is_not_the_data_it_stands_for(tmp_path):
    """By its first line, as git-lfs writes it."""
    assert tree(tmp_path / "a", model=POINTER, text="version of mine")["pointers"] == ["model"]
    assert digest.digest_of(os.fspath(tmp_path / "a" / "model"))["pointers"] == [f"{tmp_path}/a/model"]


def test_a_path_that_is_not_there_is_an_error_and_no_empty_folder(tmp_path):
    """Else a path that is missing everywhere would be called the same everywhere."""
    with pytest.raises(FileNotFoundError):
        digest.digest_of(os.fspath(tmp_path / "none"))


def test_a_quick_look_finds_pointers_too(tmp_path):
    """In a folder and in a file; a path that is not there is an error and no empty one."""
    tree(tmp_path / "a", model=POINTER, text="mine")
    assert digest.pointers_under(os.fspath(tmp_path / "a")) == ["model"]
    assert digest.pointers_under(os.fspath(tmp_path / "a" / "text")) == []
    with pytest.raises(FileNotFoundError):
        digest.pointers_under(os.fspath(tmp_path / "b"))
