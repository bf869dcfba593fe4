"""Are the words of a template told from its marks?"""

from __future__ import annotations

from preflight.report.language.template import pieces, translated

SOURCE = """<html lang="en"><body>
{% macro plural(count, word) %}{{ count }} {{ word }}{{ "" if count == 1 else "s" }}{% endmacro %}
<style>p { color: red }</style>
<p aria-label="Key figures">and {{ plural(nodes|length - 1, "more node") }}{% if a < b %} wait{% endif %}</p>
"""


def test_words_are_found_and_marks_are_not():
    """Text between marks, labels that are spoken, and words that are counted."""
    assert list(pieces(SOURCE)) == [("Key figures", 4), ("and", 4), ("more node", 4), ("wait", 4)]


def test_a_translated_template_has_its_own_words_and_the_same_marks():
    """No plural ending, and the language of the page is said."""
    told = translated(
        SOURCE, "zh", {"Key figures": "数字", "and": "以及", "more node": "节点", "wait": "等"}.__getitem__
    )
    assert '<html lang="zh">' in told
    assert "{{ count }} {{ word }}{% endmacro %}" in told
    assert 'aria-label="数字">以及 {{ plural(nodes|length - 1, "节点") }}{% if a < b %} 等{% endif %}' in told
    assert "<style>p { color: red }</style>" in told
