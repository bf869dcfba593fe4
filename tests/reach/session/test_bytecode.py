"""Is the node code that is sent small, the same code, and made anew when it changes?"""

import marshal
import sys
import zlib
from types import CodeType

import pytest

from preflight.reach.session import bytecode, payload

TEXT = '''"""What this is."""

from __future__ import annotations

count: Nowhere = 1

def outer(number: int, *more: Nowhere) -> tuple:
    """What it does."""
    late: Nowhere
    names: Nowhere = [
        "%s %s" % (place, number)

        for place in range(number)
    ]



    return names, lambda: 1 / (
        number - number
    )


class Held:
    """What it holds."""

    word = "Held"
'''


def lines(code: CodeType) -> list[list[tuple[int, int, int | None]]]:
    """The lines of a code and of all that is in it, one row for each stretch that has one line."""
    rows: list[tuple[int, int, int | None]] = []
    for start, end, line in code.co_lines():
        if rows and rows[-1][2] == line:
            rows[-1] = (rows[-1][0], end, line)
        else:
            rows.append((start, end, line))
    return [rows, *(each for held in code.co_consts if isinstance(held, CodeType) for each in lines(held))]


@pytest.mark.skipif(not bytecode.HAS_COLUMNS, reason="before Python 3.11 a code has no columns")
@pytest.mark.parametrize("text", [TEXT, *payload.node_sources().values()])
def test_every_instruction_keeps_its_line(text):
    """Whatever of it fails on a node says where; only the column is lost."""
    code = compile(text, "made", "exec", dont_inherit=True)
    slim = bytecode.without_columns(code)
    assert lines(slim) == lines(code)
    assert {place[2:] for place in slim.co_positions()} <= {(None, None)}


def test_code_is_the_same_without_what_is_for_readers(tmp_path):
    """Neither docstring nor annotation is sent, and what looks like one stays."""
    path = tmp_path / "made.py"
    path.write_text(TEXT)
    held: dict = {"__name__": "made"}
    exec(marshal.loads(bytecode.compiled(path, "made")), held)
    names, fails = held["outer"](2)
    assert names == ["0 2", "1 2"]
    assert (held["Held"].word, held["Held"].__doc__, held["outer"].__doc__) == ("Held", None, None)
    assert held["outer"].__annotations__ == {}
    assert held["count"] == 1
    assert held.keys().isdisjoint({"annotations", "__annotations__"})
    with pytest.raises(ZeroDivisionError) as failure:
        fails()
    last = failure.traceback[-1]
    assert (last.frame.code.raw.co_filename, last.lineno + 1) == ("<sent>/made", 18)


def test_what_was_packed_is_kept_until_a_file_changes(tmp_path, monkeypatch):
    """A later run reads it; a changed file, or one that was cut short, is packed anew."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path, folder = tmp_path / "made.py", tmp_path / "kept"
    path.write_text("word = 1\n")

    def told() -> object:
        held: dict = {}
        exec(
            marshal.loads(
                marshal.loads(zlib.decompress(bytecode.packed({"made": path}, name="all", folder=folder)))["made"]
            ),
            held,
        )
        return held["word"]

    assert told() == 1
    (kept,) = folder.iterdir()
    path.write_text("word = 22\n")
    assert told() == 22
    whole = kept.read_bytes()
    for length in (20, len(whole) - 1):
        kept.write_bytes(whole[:length])
        assert told() == 22
    kept.write_bytes(whole)
    monkeypatch.setattr(bytecode, "compiled", lambda *_: pytest.fail("it is there"))
    assert told() == 22


def test_nothing_is_kept_where_python_writes_no_bytecode(tmp_path, monkeypatch):
    """As with modules."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "made.py"
    path.write_text("word = 1\n")
    assert bytecode.packed({"made": path}, name="all", folder=tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
