"""Do the pages in docs/ say what the code says?"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt

from preflight.cli.explain import check_texts
from tests import docs, house

ARCHITECTURE = docs.ARCHITECTURE_PAGE.read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\d+|apart) \| `(\w+)` \| \S.*\|$", re.MULTILINE)


def rendered(text: str) -> str:
    """What a reader of the page sees: its words without the marks, white space folded."""
    tokens = [part for block in MarkdownIt().parse(text) for part in block.children or ()]
    return " ".join(" ".join(part.content or " " for part in tokens).split())


def test_the_page_of_checks_is_current():
    """Word for word what `python -m tests.docs` writes now."""
    assert docs.CHECKS_PAGE.read_text(encoding="utf-8") == docs.checks_page(), "run python -m tests.docs"


def test_the_page_shows_what_explain_prints():
    """Markdown swallows nothing of a docstring: no <placeholder>, no asterisk, no underscore."""

    def letters(text: str) -> str:
        return re.sub(r"[\s`]|(?<!/)\*(?!/)", "", text)

    seen = letters(rendered(docs.CHECKS_PAGE.read_text(encoding="utf-8")))
    assert [name for name, _, text in check_texts(docs.CHECKS_FOLDER) if letters(text) not in seen] == []


def test_every_room_is_named_in_its_layer():
    """The table has each room of preflight/ once, in the layer that the tests keep."""
    layers = {name: str(number) for number, row in enumerate(house.ORDER, start=1) for name in row}
    layers |= dict.fromkeys(house.APART, "apart")
    assert {room: layer for layer, room in ROW.findall(ARCHITECTURE)} == layers
    assert len(ROW.findall(ARCHITECTURE)) == len(house.rooms())


def test_the_layers_inside_the_larger_rooms_are_those_kept():
    """One line a room, as `python -m tests.docs` writes it now."""
    assert docs.architecture_page(ARCHITECTURE) == ARCHITECTURE, "run python -m tests.docs"
    assert "- `node`: agent → sources" in ARCHITECTURE


def test_files_that_the_pages_name_are_there():
    """Links between the pages, and paths of the package in the table of what to touch."""
    links = re.findall(r"\]\(([^)#]+)\)", ARCHITECTURE)
    assert [link for link in links if not (house.ROOT / "docs" / link).exists()] == []
    paths = re.findall(r"`((?:node|facts|launch|transport|workloads|options|report)/[\w/]+(?:\.py)?)`", ARCHITECTURE)
    assert [path for path in paths if "NAME" not in path and not (house.PACKAGE / path).exists()] == []
