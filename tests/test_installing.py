"""Does every line that says how to install preflight name something that exists: this checkout, or a wheel of it?"""

from __future__ import annotations

import re
import sys

import pytest

from tests.house import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PLACES = ("*.md", "docs/**/*.md", "examples/*", ".ci/*", ".github/**/*.*", "preflight/**/*.p[yo]", "checks/*.py")
FILES = sorted({path for place in PLACES for path in ROOT.glob(place) if path.is_file()})
INSTALLS = re.compile(r"(?:\b(?:pip3?|pipx|uv tool|uv) (?:install|add|run)|\buvx)\b([^\n`&;|]*)")
WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")
OURS = re.compile(r"preflight", re.IGNORECASE)
CHECKOUT = re.compile(r"\.(?:\[([\w,-]+)\])?")
WHEEL = re.compile(r"(?:\$\(ls )?\S*\.whl\)?(?:\[([\w,-]+)\])?")


def requirements(text: str) -> list[str]:
    """What the install lines of a text name, in the order they stand."""
    words = [word for line in INSTALLS.findall(text) for word in WORD.findall(line)]
    return [word.strip("'\".,:)") if word.endswith((",", ":", ")")) else word.strip("'\"") for word in words]


def wrong(requirement: str) -> str:
    """What is wrong with something to install; "" for nothing, and for what others publish."""
    form = CHECKOUT.fullmatch(requirement) or WHEEL.fullmatch(requirement)
    if form:
        unknown = set(filter(None, (form[1] or "").split(","))) - set(PROJECT["optional-dependencies"])
        return f"no extra is called {', '.join(sorted(unknown))}" if unknown else ""
    return "nothing of ours is published on an index" if OURS.search(requirement) else ""


def test_install_lines_name_a_checkout_or_a_wheel():
    """No page, example, workflow or message names a package of ours on an index, or an extra that does not exist."""
    named = [(path, word) for path in FILES for word in requirements(path.read_text(encoding="utf-8"))]
    assert [(str(path.relative_to(ROOT)), word, wrong(word)) for path, word in named if wrong(word)] == []


def test_the_readmes_are_among_the_install_lines():
    """Else the test above would pass on a pattern that finds nothing."""
    for name in ("README.md", "README.zh-CN.md", "CONTRIBUTING.md", "docs/index.md", "examples/github-actions.yml"):
        assert any(map(CHECKOUT.fullmatch, requirements((ROOT / name).read_text(encoding="utf-8")))), name
    assert "$(ls dist/*.whl)[torch]" in requirements((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "line",
    [
        "`pip install cluster-preflight`",
        "pip install 'torch-preflight[torch]' && preflight run",
        "pip3 install -U preflight",
        "pipx install cluster_preflight",
        "uv tool install cluster-preflight",
        "uvx --from cluster-preflight preflight run",
        "pip install '.[gpu]'",
    ],
)
def test_a_line_that_cannot_work_is_found(line):
    """A name on an index, by whatever installer, and an extra that the project has not."""
    assert any(map(wrong, requirements(line)))


def test_the_name_is_not_the_one_that_others_publish():
    """The distribution is cluster-preflight, its commands and its package are preflight; no link leads to an index."""
    assert PROJECT["name"] == "cluster-preflight"
    assert PROJECT["scripts"] == {"preflight": "preflight.__main__:main"}
    assert not [url for url in PROJECT.get("urls", {}).values() if "pypi.org" in url]
