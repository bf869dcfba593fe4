"""What happens to launch files that are broken in any way?"""

from __future__ import annotations

import pytest

from preflight.errors import UsageError
from preflight.launch.rules.check import check_texts
from tests.launch.samples import FORMATS, mutated

MUTATIONS = 150


def outcome(file, text):
    """The findings of a file, and the line that refuses it, "" where it is judged."""
    try:
        return check_texts({file: text})[0], ""
    except UsageError as error:
        return (), str(error)


@pytest.mark.parametrize("name", FORMATS)
def test_a_mutated_file_gives_findings_or_one_line(name):
    """A broken file is judged or refused with one line; any other exception is a bug."""
    file, text = FORMATS[name]
    for seed in range(MUTATIONS):
        findings, refusal = outcome(file, mutated(text, seed))
        assert "\n" not in refusal
        assert not refusal or file in refusal
        assert all(finding.check.startswith("launch.") for finding in findings)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000,
        "x=" + "$(" * 3000,
        "a: " + "[" * 5000,
        '{"a":' * 5000,
        "if true; then\n" * 2000 + "torchrun t.py\n",
        "f() { f; f; }\nf\ntorchrun t.py\n",
        "torchrun " + "a" * 200_000,
        "A=x\n" + "A=$A$A\n" * 60 + "torchrun $A t.py\n",
        "for i in {0..99999}; do for j in {0..99999}; do torchrun t.py; done; done\n",
        "a: &a [x]\n" + "".join(f"b{i}: &b{i} [*a, *a, *a]\n" for i in range(40)),
        "eval eval eval eval eval torchrun t.py\n" * 50,
    ],
    ids=lambda text: text[:12].replace("\n", " "),
)
def test_a_hostile_file_ends_soon(text):
    """Deep nesting, recursion and growth are cut off, not followed."""
    for name in ("x.sh", "x.yaml", "x.json", "hostfile"):
        assert "\n" not in outcome(name, text)[1]
