"""Files that hold nothing of a launch."""

from __future__ import annotations

import pytest

from preflight.launch.read import read_texts
from tests.launch.samples import judged


def test_what_is_no_launch_file_is_skipped_with_a_reason():
    """Python, an empty file, foreign YAML."""
    for name, text in (("a.py", "x=1\n"), ("a.sh", "\n"), ("a.yaml", "on: push\n"), ("a.sh", "ls\n")):
        (found,) = judged({name: text})
        assert (found.check, str(found.verdict)) == ("launch.file_is_judged", "skip")


OF_NO_LAUNCH = {
    "plain.conf": "a = 1\nb = 2\n",
    "plain.txt": "a = 1\n",
    "plain": "key=value\n",
    "plain.ini": "[x]\na = 1\n",
    "plain.cfg": "a = 1\n",
    "plain.env": "A=1\nB=2\n",
    ".deepspeed_env": "A=1\n",
    "nccl.conf": "# nothing yet\n",
    "plain.json": '{"a": 1}\n',
    "ds.json": '{"optimizer": {"type": "Adam"}, "fp16": {"enabled": true}}\n',
    "plain.yaml": "a: 1\n",
    "list.yaml": "- a\n- b\n",
    "map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {A: '1'}\n",
    "pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: a, image: b}]}\n",
    "compose.yaml": "services:\n  a:\n    image: x\n",
    "plain.toml": "a = 1\n",
    "plain.sh": "export A=1\nB=2\n",
    "echo.sh": "echo hello\n",
    "comment.sh": "#!/bin/bash\n# nothing\n",
    "script.py": "a = 1\n",
    "README.md": "torchrun train.py\n",
    "Dockerfile": "FROM python\nENV A=1\n",
    "empty.conf": "",
    "hosts": "127.0.0.1 localhost\n",
}


@pytest.mark.parametrize("name", OF_NO_LAUNCH)
def test_a_file_from_which_no_launch_value_came_was_not_judged(name):
    """Whatever its form: it says so with its line, and by itself it is no file with nothing wrong in it."""
    files = read_texts({name: OF_NO_LAUNCH[name]})
    assert not files.are_judged or files.are_open
    assert [skip.file for skip in files.skips] == [name]
    assert all(skip.line >= 1 and skip.reason for skip in files.skips)


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("a.ipynb", "{}\n", "a notebook"),
        ("a.py", "import submitit\n", "a Python program"),
        ("a.toml", "[parallelism]\n", "torchtitan"),
        ("a.service", "[Service]\nExecStart=/usr/bin/trainer t.py\n", "systemd"),
        ("a.nomad", 'job "train" {\n}\n', "HCL"),
    ],
)
def test_a_file_of_a_form_that_is_not_read_is_named(name, text, what):
    """So that whoever gave it knows what to give in its place."""
    (found,) = judged({name: text})
    assert str(found.verdict) == "skip"
    assert what in found.message
