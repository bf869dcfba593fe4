"""What happens to launch files that are broken in any way?"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from preflight.launch.rules.check import check_texts
from preflight.said.errors import UsageError
from tests.launch.samples import FORMATS, mutated
from tests.shares import shares

MUTATIONS = 150


def outcome(file, text):
    """The findings of a file, and the line that refuses it, "" where it is judged."""
    try:
        return check_texts({file: text})[0], ""
    except UsageError as error:
        return (), str(error)


@pytest.mark.parametrize("share", shares(6))
@pytest.mark.parametrize("name", FORMATS)
def test_a_mutated_file_gives_findings_or_one_line(name, share):
    """A broken file is judged or refused with one line; any other exception is a bug."""
    file, text = FORMATS[name]
    for seed in share.of(range(MUTATIONS)):
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


LETTERS = "x" * 10_000
# What grows while it is expanded, each from a file of some kilobytes.
GROWING = {
    "replaced": f"A={LETTERS}; torchrun --nnodes=${{A//x/$A}} t.py\n",
    "replaced by a text": f"A={LETTERS}; torchrun --nnodes=${{A//x/{LETTERS}}} t.py\n",
    "replaced again": "A=xxxx\n" + "A=${A//x/$A}\n" * 40 + "torchrun --nnodes=$A t.py\n",
    "one word": f"A={LETTERS}\ntorchrun {'$A' * 20_000} t.py\n",
    "one text": f'A={LETTERS}\ntorchrun "{"$A" * 20_000}" t.py\n',
    "many words": f"A={LETTERS}\ntorchrun {'$A ' * 20_000} t.py\n",
    "braces": f"A={LETTERS}\ntorchrun {'$A{1..500}{1..500}$A ' * 5} t.py\n",
    "numbers": f"torchrun {'$(seq 1 99999) ' * 400} t.py\n",
    "an array": "A=(a a)\n" + 'A+=("${A[@]}")\n' * 60 + "torchrun ${A[@]} t.py\n",
    "an array of words": "A=(a a)\n" + "A=(${A[@]} ${A[@]})\n" * 60 + "torchrun ${A[@]} t.py\n",
    "kept by every command": f"A={LETTERS}\n" + 'A=$A"x"\necho a\n' * 2_000 + "torchrun $A t.py\n",
    "appended": f"A={LETTERS}\n" + "A+=$A\n" * 60 + "torchrun $A t.py\n",
    "a default": f"A={LETTERS}\ntorchrun {'${B:-$A$A$A$A$A}' * 2_000} t.py\n",
    "one from the other": "A0=x\n" + "".join(f"A{n + 1}=$A{n}$A{n}\n" for n in range(60)) + "torchrun $A60 t.py\n",
    "many variables": "".join(f"a{n}=1\n" for n in range(15_000)) + "x\n" * 2_500 + "torchrun t.py\n",
    "a function": f'A={LETTERS}\nf() {{ torchrun "$@" "$@"; }}\ng() {{ f "$@" "$@"; }}\ng {"$A " * 2_000}\n',
    "a document": f"A={LETTERS}\nbash <<EOF\n{'torchrun $A t.py' * 2_000}\nEOF\n",
}
IN_A_CHILD = """
import json, resource, sys
from preflight.said.errors import UsageError
from preflight.launch.rules.check import check_texts
resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
for name, (file, text) in json.load(sys.stdin).items():
    try:
        print(name, len(check_texts({file: text})[0]), flush=True)
    except UsageError as error:
        print(name, error, flush=True)
"""


def in_a_child(texts):
    """What a process of its own with 400 MiB of memory says of each text, and how it ends."""
    given = json.dumps(texts)
    done = subprocess.run([sys.executable, "-c", IN_A_CHILD], input=given, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_what_grows_as_it_is_expanded_is_bounded_while_it_does():
    """A script of some kilobytes never takes gigabytes: what grows beyond measure stays unknown."""
    code, lines, errors = in_a_child({name: ("job.sh", text) for name, text in GROWING.items()})
    assert (code, errors[-500:]) == (0, "")
    assert len(lines) == len(GROWING)


DEEP = {
    "[": "a: " + "[" * 40_000,
    "closed": "[" * 100_000 + "]" * 100_000,
    "{": "a: " + "{a: " * 40_000,
    "-": "- " * 40_000 + "a",
    "?": "? " * 40_000 + "a",
    "json": '{"apiVersion": 1, "kind": ' + "[" * 40_000 + "]" * 40_000 + "}",
    "(": "(" * 40_000,
    "=(": "a=(" * 40_000,
    "$(": "x=" + "$(" * 40_000,
}


def test_what_is_nested_too_deep_is_refused_with_one_line():
    """No parser recurses until the process dies: YAML, manifests and JSON of 40,000 brackets end with one line."""
    texts = {f"{name} {file}": (file, text) for name, text in DEEP.items() for file in ("a.yaml", "a.json", "hostfile")}
    code, lines, errors = in_a_child(texts | {name: ("a.sh", DEEP[name]) for name in ("(", "=(", "$(")})
    assert (code, errors[-500:]) == (0, "")
    assert len(lines) == 3 * len(DEEP) + 3
    assert sum("nested too deep" in line for line in lines) >= 11
