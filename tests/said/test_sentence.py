"""Does a sentence keep its template and values, whatever happens to it?"""

from __future__ import annotations

import json
import marshal
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.said import (
    Said,
    changed,
    is_of,
    joined,
    knowing,
    leaves,
    plain_values,
    restored,
    said,
    sentences_of,
    stored,
    translated,
    value_in,
    values_in,
)

CALLED = said("the node calls itself {hostname}", "localhost")
CHINESE = {
    "the node calls itself {hostname}": "该节点称自己为 {hostname}",
    "{count} node{s}": "{count} 个节点",
    "not measured: {error}": "未测量：{error}",
    "; ": "；",
}


def in_chinese(text: str) -> str:
    """By the catalogue above."""
    return translated(text, CHINESE.get, lambda plain: CHINESE.get(plain, plain))


def test_a_sentence_is_its_english_text():
    """Whatever takes a text takes it: comparing, JSON, hashing, an f-string."""
    assert CALLED == "the node calls itself localhost"
    assert json.loads(json.dumps({"message": CALLED})) == {"message": "the node calls itself localhost"}
    assert {CALLED: 1}["the node calls itself localhost"] == 1
    assert f"{CALLED}!" == "the node calls itself localhost!"


def test_values_are_formatted_as_the_template_says():
    """The value stays what it was, for whoever computes with it."""
    slow = said("takes {seconds:.2f} s for {name!r}, {seconds:.2f} s", 1.5, "a")
    assert slow == "takes 1.50 s for 'a', 1.50 s"
    assert value_in(slow, "seconds") == 1.5


@pytest.mark.parametrize("values", [(), ("a", "b")])
def test_a_template_takes_one_value_for_each_field(values):
    """More or fewer are a mistake of whoever wrote the sentence."""
    with pytest.raises(ValueError, match="zip"):
        said("the node calls itself {hostname}", *values)


def test_an_error_hands_its_sentence_on():
    """str(error) is the sentence that it was raised with, and so is an error that stands in another sentence."""
    outer = said("not measured: {error}", ValueError(CALLED))
    assert outer == "not measured: the node calls itself localhost"
    assert value_in(outer, "hostname") == "localhost"
    assert is_of(outer, "the node calls itself {hostname}")
    assert in_chinese(outer) == "未测量：该节点称自己为 localhost"


def test_sentences_in_a_row_stay_apart():
    """One alone stays itself; none is empty; a list in a list is one list."""
    two = joined([CALLED, said("{count} node{s}", 1, "")])
    assert two == "the node calls itself localhost; 1 node"
    assert in_chinese(two) == "该节点称自己为 localhost；1 个节点"
    assert joined([CALLED]) is CALLED
    assert joined([]) == ""
    assert list(sentences_of(joined([two, "more"]))) == [CALLED, "1 node", "more"]


def test_what_has_no_translation_stays_english():
    """A new sentence needs no other language."""
    assert in_chinese(said("{count} of {counted} GPUs", 1, 8)) == "1 of 8 GPUs"


def test_a_sentence_comes_back_from_json_and_pickle():
    """With its template, its values and the sentences in it."""
    outer = joined([said("not measured: {error}", CALLED), "plain"])
    again = restored(json.loads(json.dumps(stored(outer))))
    assert isinstance(again, Said)
    assert again == outer
    assert in_chinese(again) == in_chinese(outer) == "未测量：该节点称自己为 localhost；plain"
    assert in_chinese(pickle.loads(pickle.dumps(outer))) == in_chinese(outer)


def test_a_change_of_a_value_keeps_the_sentence():
    """What hides a secret or escapes a letter changes values; what changes the words leaves a plain text."""
    hostile = said("the node calls itself {hostname}", "a\x1b")
    assert value_in(changed(hostile, lambda text: text.replace("\x1b", "?")), "hostname") == "a?"
    assert not isinstance(changed(hostile, lambda text: text.replace("node", "host")), Said)
    assert changed(hostile, lambda text: text) is hostile


@given(st.text(), st.text())
def test_a_value_is_never_a_template(one, other):
    """Braces and percent signs in what a node says are letters like all others."""
    text = said("{one} and {{}} {other}", one, other)
    assert text == f"{one} and {{}} {other}"
    assert translated(text, lambda _: "{other}{{ {one}", str) == f"{other}{{ {one}"


def test_what_is_known_of_a_sentence_stands_in_no_word():
    """It goes along where the sentence is copied, changed or said within another, and no reader sees it."""
    faulty = knowing(said("GPU {index} is slow", "3"), about="slowdown", things=("3",))
    whole = said("not measured: {error}", faulty)
    assert whole == "not measured: GPU 3 is slow"
    for text in (faulty, whole, pickle.loads(pickle.dumps(whole)), changed(whole, lambda text: text.replace("3", "4"))):
        assert value_in(text, "about") == "slowdown"
    assert in_chinese(faulty) == "GPU 3 is slow"
    assert "slowdown" not in json.dumps(stored(whole))
    assert knowing("", about="nothing") == ""


def test_a_list_of_which_something_is_known_is_one_sentence():
    """Whoever asks for what is known gets it with all of the list."""
    both = knowing(joined(["a is down", "b is down"]), about="links")
    assert list(sentences_of(joined([both, CALLED]))) == [both, CALLED]
    assert list(values_in(joined([both, CALLED]), "about")) == ["links"]
    assert list(leaves(said("{what}: {text}", "x", CALLED))) == ["x", "localhost"]


def test_what_goes_to_a_node_has_no_sentence_in_it():
    """marshal takes neither a subclass of str nor what holds one."""
    message = {"arguments": {"words": [CALLED, ("a", CALLED)], CALLED: 1}}
    assert marshal.loads(marshal.dumps(plain_values(message))) == message
