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
    assert main.run([verb, "--help"]) == 0
    text = capsys.readouterr().out
    shown = set(re.findall(r"^  (?:-\w(?: [A-Z]+)?, )?--([a-z-]+)", text, re.MULTILINE))
    assert shown - {"help", "verbose", "quiet"} == {row.name_in(verb) for row in OPTIONS.values() if verb in row.verbs}
    assert not shown & others
    for row in OPTIONS.values():
        if verb in row.verbs:
            assert f"\n{row.subject}:\n" in text
            help_text = row.help % {"choices": ", ".join(row.choices)}
            assert " ".join(f"{help_text} Default: {row.shown}.".split()) in " ".join(text.split()) or not row.shown
