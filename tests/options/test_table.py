"""Are the options the same words with the same meaning for pytest and for every verb?"""

from __future__ import annotations

import argparse

import pytest

from preflight.options.options import Options
from preflight.options.table import OPTIONS, Chosen, canonical, destination


def parsed(*words: str) -> dict:
    parser = argparse.ArgumentParser()
    for name, attributes in OPTIONS.items():
        parser.add_argument(f"--{name}", dest=name.replace("-", "_"), **attributes)
    return vars(parser.parse_args(words))


def test_every_option_has_a_line_of_help():
    """One that fits beside its name, and says what is taken."""
    for name, attributes in OPTIONS.items():
        assert attributes["help"], name
        assert len(attributes["help"]) <= 100, name
        assert ("metavar" in attributes) != (attributes.get("action") == "store_true"), name


@pytest.mark.parametrize("name", ["backend", "profile", "ranks-per-node", "wrap", "ssh-option", "deadline"])
def test_the_default_on_the_command_line_is_that_of_the_run(name):
    """What is not given means the same in a verb, in pytest and in a program."""
    field = name.replace("-", "_")
    assert parsed()[field] == getattr(Options(), field)


def test_a_launcher_that_was_not_named_is_the_launch_files_or_direct():
    """Only one that was named can contradict the files."""
    assert parsed()["launcher"] is None
    assert Options().launcher == "direct"


def test_an_option_that_was_not_given_reads_as_its_default():
    """A verb that has no such option does as if it had not been given."""
    chosen = Chosen({"hosts": "node1"})
    assert chosen["hosts"] == "node1"
    assert chosen["ranks_per_node"] == "auto"
    assert chosen["env"] == []
    assert chosen["json"] is None


def test_an_option_that_does_not_exist_is_a_bug_that_shows():
    """No misspelt name reads as nothing."""
    with pytest.raises(KeyError):
        Chosen({})["host"]


def test_json_takes_a_file_or_none():
    """Alone it means here; a word after it is the file."""
    assert parsed("--json")["json"] == "-"
    assert parsed("--json", "out.json")["json"] == "out.json"


def test_variables_add_up():
    """--env is repeatable, and two command lines do not share the list."""
    assert parsed("--env", "A=1", "--env", "B=2")["env"] == ["A=1", "B=2"]
    assert parsed()["env"] == []


def test_canonical_names_are_nobody_elses():
    """What pytest knows an option by, and where its value lies."""
    assert canonical("ranks-per-node") == "--preflight-ranks-per-node"
    assert destination("ranks-per-node") == "preflight_ranks_per_node"
