"""Is each whole line of growing files given once?"""

from __future__ import annotations

from preflight.node.sources.rehearsal.tail import Tail


def test_a_line_is_given_when_it_is_whole(tmp_path):
    """And never again."""
    path = tmp_path / "one"
    path.write_text("a\nb")
    tail = Tail(str(path))
    assert tail.lines() == [("", b"a")]
    path.write_text("a\nbc\n")
    assert tail.lines() == [("", b"bc")]
    assert tail.lines() == []


def test_the_files_of_a_folder_are_told_apart(tmp_path):
    """New ones too; a folder that is not there holds none."""
    tail = Tail(str(tmp_path))
    (tmp_path / "b").write_text("1\n")
    assert tail.lines() == [("b", b"1")]
    (tmp_path / "a").write_text("2\n")
    assert tail.lines() == [("a", b"2")]
    assert Tail(str(tmp_path / "none")).lines() == []
