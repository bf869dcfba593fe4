"""Is the command line put right where only its words were wrong, and left alone elsewhere?"""

import pytest

from preflight.judge.again import again
from preflight.said import knowing

PYTHON = knowing("no such file", python="/opt/conda/bin/python", python_of="option")
HOST = knowing("the name does not resolve", meant_host="node3")


@pytest.mark.parametrize(
    ("reason", "nodes", "command", "wanted"),
    [
        (PYTHON, ("node1", "node2"), ("run", "--python=/none"), "run --python=/opt/conda/bin/python"),
        (
            PYTHON,
            ("node1",),
            ("pytest", "--preflight-python", "/none"),
            "pytest --preflight-python /opt/conda/bin/python",
        ),
        (HOST, ("nod3",), ("run", "--hosts=node[1-2],nod3"), "run '--hosts=node[1-2],node3'"),
        (HOST, ("nod3",), ("run", "--hosts", "me@nod3:22,nod33"), "run --hosts me@node3:22,nod33"),
    ],
)
def test_the_command_is_the_one_that_was_typed_with_the_right_word(reason, nodes, command, wanted):
    """For the machine where it was typed, however the option was written."""
    (found,) = again(reason, nodes, command)
    assert (found.node, found.now) == ("local", wanted)


@pytest.mark.parametrize(
    ("reason", "nodes", "command"),
    [
        ("not reached", ("node1",), ("run", "--hosts=node1")),
        (PYTHON, ("node1",), ("run",)),
        (knowing("no such file", python="/p", python_of="hostfile"), ("node1",), ("run", "--python=/none")),
        (HOST, ("nod3", "nod4"), ("run", "--hosts=nod3,nod4")),
        (HOST, ("nod3",), ("run", "--hosts=@file")),
        (HOST, ("nod3",), ("run", "--hosts=nod3", "--env=HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123456789")),
    ],
)
def test_no_command_is_made_up(reason, nodes, command):
    """Where the reason tells nothing, the word stands in a file, or the line holds a secret."""
    assert again(reason, nodes, command) == ()
