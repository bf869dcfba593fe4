"""Is every check explained in its own words, without being run?"""

from __future__ import annotations

from preflight.cli import explain, main
from preflight.plugin import checks_folder


def test_the_checks_are_told_without_being_run():
    """Id and docstring of each, in the order of the files."""
    found = list(explain.check_texts(checks_folder()))
    texts = {name: text for name, _, text in found}
    verdicts = {name: verdict for name, verdict, _ in found}
    assert verdicts["reach.every_node_answers"] == "fail"
    assert verdicts["clock.clocks_are_in_step"] == "warn"
    assert "reach.every_node_answers" in texts
    assert all("Fix:" in text for text in texts.values())


def test_explain_lists_every_check(capsys):
    """Its id, and below it the first line of its docstring."""
    assert main.run(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    functions = sum(path.read_text().count("\ndef test_") for path in checks_folder().glob("test_*.py"))
    assert len(lines) == 2 * functions
    assert all(line.startswith("    ") and line.endswith(".") for line in lines[1::2])


def test_explain_shows_what_why_and_how_to_fix(capsys):
    """A part of the id is enough; the whole docstring is shown."""
    assert main.run(["explain", "mtu"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("network.")
    assert "Fix:" in text


def test_a_part_of_an_id_explains_every_check_that_has_it(capsys):
    """Each with the verdict that it gives where it does not hold."""
    assert main.run(["explain", "clock."]) == 0
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("clock.")]
    assert len(shown) > 1
    assert "clock.clocks_are_in_step (warn where it does not hold)" in shown
    assert shown == sorted(shown)


def test_a_check_that_is_not_there_is_one_line_and_4(capsys):
    """With the command that lists those that are."""
    assert main.run(["explain", "no_such_check"]) == 4
    seen = capsys.readouterr()
    assert seen.err == "preflight: explain: no check is called 'no_such_check'; preflight explain lists them\n"
    assert seen.out == ""


def test_a_file_is_read_and_not_imported(tmp_path):
    """A check of somebody's own does nothing while it is explained; functions that are no checks are left out."""
    (tmp_path / "test_mine.py").write_text(
        'import pytest\nraise SystemExit(1)\n\n@pytest.mark.advisory\ndef test_b(node):\n    """B."""\n\n'
        'def helper():\n    """No check."""\n\ndef test_a(node):\n    pass\n'
    )
    (tmp_path / "other.py").write_text("def test_c(node): ...\n")
    assert list(explain.check_texts(tmp_path)) == [("mine.b", "warn", "B."), ("mine.a", "fail", "")]
