"""Are listening sockets read as the node sent them, and is a count that is not there no zero?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.ports import Listener, Ports
from preflight.facts.value import Missing
from preflight.said.errors import FactMissing
from tests.facts.answers import decoded, wire

UNKNOWN = Missing("its process is not ours to see", "denied")
PORTS = Ports(
    listeners=(Listener("::", 29500, "python", 42), Listener("0.0.0.0", 0, UNKNOWN, UNKNOWN)), ephemeral_in_use=12
)


def test_a_listener_is_read_with_its_program_where_the_kernel_tells_it():
    """Without the right to see it, the reason stands there."""
    found = decoded("ports", wire(PORTS))
    assert found == PORTS
    assert found.used_ephemeral() == 12


def test_ports_that_were_not_counted_are_missing():
    """A node that sends no count must not look like one without connections."""
    found = decoded("ports", {"listeners": []})
    with pytest.raises(FactMissing, match=r"^ephemeral ports in use: not counted$") as caught:
        found.used_ephemeral()
    assert caught.value.kind == "absent"


@pytest.mark.parametrize(
    "listener",
    [
        {"address": "::", "port": 65536, "program": "python", "pid": 1},
        {"address": "::", "port": -1, "program": "python", "pid": 1},
        {"address": "::", "port": "29500", "program": "python", "pid": 1},
        {"address": "::", "port": 29500, "program": None, "pid": 1},
        {"address": "::", "port": 29500, "program": "python", "pid": -1},
        {"address": "::", "port": 29500, "program": "python"},
        ["::", 29500, "python", 1],
    ],
)
def test_a_listener_of_another_form_is_malformed(listener):
    """A port is a number from 0 to 65535."""
    with pytest.raises(FactMissing, match="malformed"):
        decoded("ports", {"listeners": [listener]})
