"""Does each verb take the words that are its own, and show them in its help?"""

from __future__ import annotations

import re

import pytest

from preflight.cli import main
from preflight.job.options.options import OPTIONS

OF_BENCH = {"op", "begin", "end", "factor", "iters", "warmup", "dtype", "mode", "scope", "burn-in"}
OF_BANDWIDTH = {"localize", "full-mesh"}
OF_TRAINING = {"launcher", "model", "strategy", "precision", "accumulate", "checkpoint-activations", "checkpoint-dir"}
OF_TRAINING |= {"drill"}


@pytest.mark.parametrize(
    ("verb", "others"),
    [
        ("run", OF_BENCH),
        ("bench", OF_TRAINING),
        ("train", OF_BENCH | OF_BANDWIDTH),
        ("facts", OF_BENCH | OF_BANDWIDTH | OF_TRAINING | {"launch", "profile", "baseline"}),
    ],
)
def test_help_of_a_verb_names_every_option_that_it_takes(verb, others, capsys):
    """Under the headings of their subjects, with their defaults; none of another verb."""
    assert main.run([verb, "--help-all"]) == 0
    text = capsys.readouterr().out
    shown = set(re.findall(r"^  (?:-\w(?: [A-Z]+)?, )?--([a-z-]+)", text, re.MULTILINE))
    assert shown - {"help", "help-all", "verbose", "quiet"} == {
        row.name_in(verb) for row in OPTIONS.values() if verb in row.verbs
    }
    assert not shown & others
    for row in OPTIONS.values():
        if verb in row.verbs:
            assert f"\n{row.subject}:\n" in text
            help_text = row.help % {"choices": ", ".join(row.choices)}
            assert " ".join(f"{help_text} Default: {row.shown}.".split()) in " ".join(text.split()) or not row.shown


COMMON = {"run": 5, "bench": 5, "train": 5, "rehearse": 3, "facts": 3}


@pytest.mark.parametrize("verb", COMMON)
def test_the_short_help_describes_what_everybody_needs_and_names_the_rest(verb, capsys):
    """At most five options are described, before all others; no option of the verb is left out."""
    assert main.run([verb, "--help"]) == 0
    text = capsys.readouterr().out
    before, _, more = text.partition("\nmore options, which --help-all describes:\n")
    described = set(re.findall(r"^  --([a-z-]+)", before, re.MULTILINE)) - {"help-all"}
    named = set(re.findall(r"(?<= )--([a-z-]+)", more.partition("\n\n")[0]))
    taken = {row.name_in(verb) for row in OPTIONS.values() if verb in row.verbs}
    positional = {"rehearse"} if verb == "rehearse" else set()
    assert described - positional == {row.name for row in OPTIONS.values() if row.is_common and verb in row.verbs}
    assert len(described - positional) == COMMON[verb]
    assert described | named >= taken
    assert not described & named
    assert "examples:" in more


def test_a_verb_of_few_options_has_one_help(capsys):
    """Where all of it fits on a screen there is nothing to look up."""
    assert main.run(["explain", "--help"]) == 0
    assert "--help-all" not in capsys.readouterr().out
