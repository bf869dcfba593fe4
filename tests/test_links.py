"""Do the links of the pages lead somewhere, and have those to other sites the form of an address?"""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt

from tests import docs, house

PAGES = sorted((*docs.DOCS.rglob("*.md"), *house.ROOT.glob("*.md")))
TARGETS = {"link_open": "href", "image": "src"}
ADDRESS = re.compile(r"https?:[^\s\"'`<>|]*[^\s\"'`<>|.,;:)]")
HOST = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,}")
# Where a finding or an explanation has its addresses from.
SAID = sorted((*(house.ROOT / "checks").glob("*.py"), *(house.PACKAGE / "knowledge").rglob("*.py")))


def named(path: Path) -> str:
    """A file as a test's id has it."""
    return str(path.relative_to(house.ROOT))


@pytest.fixture(scope="module")
def built() -> dict[str, str]:
    """Every page of the site that is built from the code."""
    return docs.built()


def links(text: str) -> list[str]:
    """Where the links and pictures of a page lead, references resolved, code left out."""
    parts = [part for block in MarkdownIt().enable("table").parse(text) for part in block.children or ()]
    return [str(part.attrs[TARGETS[part.type]]) for part in parts if part.type in TARGETS]


def headings(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and mkdocs make them: the second of two alike has a number."""
    blocks = MarkdownIt().enable("table").parse(text)
    anchors: set[str] = set()
    for opening, inline in itertools.pairwise(blocks):
        if opening.type == "heading_open":
            title = "".join(part.content for part in inline.children or ())
            anchor = re.sub(r"[^\w\s-]", "", title).strip().lower().replace(" ", "-")
            twins = sum(
                held == anchor or re.fullmatch(rf"{re.escape(anchor)}-\d+", held) is not None for held in anchors
            )
            anchors.add(f"{anchor}-{twins}" if twins else anchor)
    return anchors


def lost(page: Path, text: str, built: dict[str, str]) -> list[str]:
    """The links of a page that lead to no file of the checkout, no heading of one, and no page that is built."""
    found = []
    for link in links(text):
        if link.startswith(("https:", "http:", "mailto:")):
            continue
        place, _, anchor = unquote(link).partition("#")
        target = Path(os.path.normpath(page.parent / place)) if place else page
        on_site = os.path.relpath(target, docs.DOCS)
        if page.is_relative_to(docs.DOCS) and on_site in built:
            heads = headings(built[on_site])
        elif not target.exists() or not target.is_relative_to(house.ROOT):
            found.append(link)
            continue
        else:
            heads = headings(text if target == page else target.read_text(encoding="utf-8")) if anchor else set()
        if anchor and anchor not in heads:
            found.append(link)
    return found


def malformed(address: str) -> str:
    """What is wrong with the form of an address of another site; "" for nothing."""
    parts = urlsplit(address)
    if parts.scheme != "https":
        return "not https"
    if parts.username or parts.port or not HOST.fullmatch(parts.netloc):
        return "no host of a public site"
    if "//" in parts.path or re.search(r"[.,;:!]$", address) or address.count("(") != address.count(")"):
        return "ends wrong"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path, built: dict[str, str]):
    """To files of the checkout and headings of their pages; from a page of docs/ to pages that the site builds, too."""
    assert lost(page, page.read_text(encoding="utf-8"), built) == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_to_other_sites_are_addresses(page: Path):
    """Nobody is asked: a test without a network sees the form alone."""
    outside = [link for link in links(page.read_text(encoding="utf-8")) if re.match(r"[a-z]+:(?!mailto)", link)]
    assert {link: malformed(link) for link in outside if malformed(link)} == {}


def test_addresses_in_checks_and_tables_have_the_form_of_one():
    """What a check's fix or a row's source leads to."""
    addresses = {found for path in SAID for found in ADDRESS.findall(path.read_text(encoding="utf-8"))}
    assert len(addresses) > 20
    assert {address: malformed(address) for address in addresses if malformed(address)} == {}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[lost](no-such-page.md)", ["no-such-page.md"]),
        ("[lost][1]\n\n[1]: gates.md#no-such-heading", ["gates.md#no-such-heading"]),
        ("![lost](no-such-picture.png)", ["no-such-picture.png"]),
        ("| [lost](<gates.md#no such>) |\n|---|", ["gates.md#no such"]),
        ("# Twice\n\n# Twice\n\n[first](#twice) [second](#twice-1) [third](#twice-2)", ["#twice-2"]),
        ("[outside of the checkout](../../../etc/passwd)", ["../../../etc/passwd"]),
        ("`[no link](no-such-page.md)`\n\n    [nor](this.md)", []),
    ],
)
def test_a_lost_link_is_found(text: str, wrong: list[str], built: dict[str, str]):
    """Of a page, a heading or a picture, however it is written; code is no link."""
    assert [unquote(link) for link in lost(docs.DOCS / "index.md", text, built)] == wrong


@pytest.mark.parametrize(
    "address",
    [
        "http://pytorch.org/",
        "https://localhost/page",
        "https://user:word@pytorch.org/",
        "https:/pytorch.org",
        "https://pytorch.org/page.",
        "https://pytorch.org/page(1",
        "https://pytorch.org//page",
        "ftp://pytorch.org/",
    ],
)
def test_a_malformed_address_is_found(address: str):
    """It would lead nowhere, or should not be published."""
    assert malformed(address)
    assert malformed("https://en.wikipedia.org/wiki/Hang_(computing)") == ""
