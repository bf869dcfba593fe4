"""Is every word of the pages and messages written right, and does the test notice one that is not?"""

from __future__ import annotations

import pytest

from tests import spelling


def test_every_word_is_known():
    """What the dictionary has not is a word of the field, in tests/data/spelling.txt, or a slip of the pen."""
    assert spelling.misspelled() == []


def test_the_words_of_the_field_are_in_order_and_needed():
    """Sorted without regard to case, each once, and none that the dictionary has."""
    words = spelling.FIELD.read_text(encoding="utf-8").split()
    assert words == sorted(set(words), key=lambda word: (word.lower(), word))
    assert [word for word in words if spelling.dictionary().lookup(word)] == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("The mesage of {node}", ["mesage"]),
        ("A half-writen plural check{s} and the nodes' own", ["writen"]),
        ("Kubernets and Slurms", ["Kubernets", "Slurms"]),
        ("the neighbour's colour", ["colour", "neighbour's"]),
        ("| a cell | of a tabel |", ["tabel"]),
    ],
)
def test_a_wrong_word_is_found(text: str, wrong: list[str]):
    """In messages, compounds, names and tables; British spelling counts, as the pages are American."""
    assert spelling.unknown(text) == wrong


@pytest.mark.parametrize(
    "text",
    [
        "`mesage` and NCCL_SOKET_IFNAME=eth0",
        "see [the page](docs/mesage.md) or https://example.com/mesage",
        "    preflight mesage\n\n```\nmesage\n```",
        "{mesage} of <mesage> in /etc/mesage, --mesage, mesage.conf and hostNetwerk",
        "Slurm's own",
    ],
)
def test_what_is_typed_is_no_word(text: str):
    """Commands, paths, options, variables, links and what is filled in."""
    assert spelling.unknown(text) == []


def test_messages_and_pages_are_read():
    """Else the tests above would pass on nothing."""
    places = [place for place, _ in spelling.texts()]
    assert {"README.md", "docs/zh/index.md", "checks/test_network.py", "preflight/report/html/report.html.j2"} <= set(
        places
    )
    assert len(places) > 5000
