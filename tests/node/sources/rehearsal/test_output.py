"""Are the first and the last words of a script kept, and those of its login apart?"""

from __future__ import annotations

from preflight.node.sources.rehearsal.output import HEAD_BYTES, KEPT_BYTES, Held, Output


def test_what_is_printed_before_the_mark_is_of_the_login():
    """The mark may come in pieces."""
    output = Output(b"mark")
    for piece in (b"welcome\nma", b"rk\nfirst\n", b"last\n"):
        output.take(piece)
    assert (output.before, output.text(), output.has_begun) == (b"welcome\n", "first\nlast\n", True)


def test_of_very_much_the_middle_is_left_out():
    """The first words say what began, the last why it ended."""
    output = Output(b"mark")
    output.take(b"mark\n" + b"a" * HEAD_BYTES + b"b" * 2 * KEPT_BYTES + b"end")
    assert output.text().startswith("aaa")
    assert output.text().endswith("end")
    assert len(output.text()) == HEAD_BYTES + KEPT_BYTES


def test_a_script_in_a_batch_shell_ends_with_its_file(tmp_path):
    """What it printed is read from files meanwhile."""
    output = Output(b"mark")
    held = Held(str(tmp_path), "7", {"out": output})
    assert (tmp_path / "go-7").exists()
    (tmp_path / "out-7").write_text("mark\nhello\n")
    assert held.poll() is None
    (tmp_path / "code-7").write_text("3\n")
    assert (held.poll(), output.text()) == (3, "hello\n")
