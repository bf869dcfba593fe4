"""Are patterns tried on the lines that have their word, and on no others?"""

from __future__ import annotations

from preflight.diagnose.index import Index, words_of


def test_words_are_letters_in_lower_case():
    """Whatever separates them, and whatever bytes a log holds."""
    assert words_of(b"NCCL_WARN: Call7to \xff ibv_reg_mr") == [b"nccl", b"warn", b"call", b"to", b"ibv", b"reg", b"mr"]


def test_a_row_is_found_by_its_pattern():
    """Once for each of its patterns that the line matches."""
    index = Index([(r"connection refused", "refused"), (r"errno 111\]", "refused"), (r"no route to host", "route")])
    line = "oserror: [errno 111] connection refused"
    assert [row for row, _ in index.matches(words_of(line.encode()), line)] == ["refused", "refused"]
    assert index.words.isdisjoint(words_of(b"step 7 loss 2.5"))


def test_patterns_that_must_all_be_there_are_found_in_any_order():
    """A path stands before its error, or after it."""
    index = Index([(r"stale file handle && (?:triton|inductor)", "cache")])
    for line in ("stale file handle: /x/triton/y", "/x/triton/y: stale file handle", "stale file handle: /data"):
        found = [row for row, _ in index.matches(words_of(line.encode()), line)]
        assert found == (["cache"] if "triton" in line else [])


def test_rows_come_in_one_order():
    """That of the alphabet, not of a set, which differs from one process to the next."""
    words = ["zebra", "apple", "mango", "cherry", "walnut", "banana", "orange"]
    index = Index([(word, word) for word in words])
    line = " ".join(words)
    assert [row for row, _ in index.matches(words_of(line.encode()), line)] == sorted(words)
