"""Is a template compiled once, and again when anything about it has changed?"""

from __future__ import annotations

import sys

import pytest
from jinja2 import Environment, FileSystemLoader

from preflight.report.html.compiled import Compiled


@pytest.fixture
def render(tmp_path, monkeypatch):
    """A new environment's rendering of a template with this text."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)

    def rendered(text: str = "{{ 1 + 1 }}", options: str = "") -> str:
        (tmp_path / "page.j2").write_text(text)
        cache = Compiled(tmp_path / "__pycache__" / "page.en", options)
        environment = Environment(loader=FileSystemLoader(tmp_path), bytecode_cache=cache, autoescape=True)
        return environment.get_template("page.j2").render()

    return rendered


def kept(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "__pycache__").glob("*")}


def test_a_template_is_compiled_once(render, tmp_path, monkeypatch):
    """The second environment has nothing to generate."""
    assert render() == "2"
    files = kept(tmp_path)
    assert len(files) == 1
    monkeypatch.setattr(Environment, "_generate", None)
    assert render() == "2"
    assert kept(tmp_path) == files


@pytest.mark.parametrize("change", [{"text": "{{ 1 + 2 }}"}, {"options": "other"}])
def test_another_text_or_other_options_are_compiled_anew(render, tmp_path, change):
    """What was kept for the old ones is replaced."""
    render()
    before = kept(tmp_path)
    assert render(**change) == ("3" if "text" in change else "2")
    after = kept(tmp_path)
    assert list(after) == list(before)
    assert after != before


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:80], lambda data: b"x" + data])
def test_a_damaged_file_is_compiled_anew(render, tmp_path, damage):
    """It is as if there were none."""
    render()
    [(name, data)] = kept(tmp_path).items()
    (tmp_path / "__pycache__" / name).write_bytes(damage(data))
    assert render() == "2"
    assert kept(tmp_path) == {name: data}


def test_where_nothing_may_be_written_it_is_compiled_each_time(render, tmp_path, monkeypatch):
    """A file where the folder should be, or PYTHONDONTWRITEBYTECODE: the page is as it would be."""
    (tmp_path / "__pycache__").write_text("")
    assert render() == "2"
    (tmp_path / "__pycache__").unlink()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert render() == "2"
    assert kept(tmp_path) == {}
