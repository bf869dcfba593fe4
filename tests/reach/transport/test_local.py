"""How is a Python on this machine started?"""

from __future__ import annotations

import sys

from preflight.reach.host import Host
from preflight.reach.hosts import parse_hosts
from preflight.reach.transport import LOADER, Reach, command
from preflight.reach.transport.local import Local


def test_this_machine_is_reached_without_a_shell():
    """The job's interpreter is this one unless another is named; a wrapper stands before it."""
    (local,) = parse_hosts("local")
    assert command(local, Reach()) == [sys.executable, "-I", "-S", "-B", "-c", LOADER]
    assert command(local, Reach(python="/opt/py", wrap=("nice",)))[:2] == ["nice", "/opt/py"]


def test_nothing_is_added_that_only_a_connection_needs():
    """Neither the words for ssh nor a time to connect: the command goes to the kernel as it is."""
    wrap = ("env", "A=a b")
    host = Host("local", "127.0.0.1", python="python3", transport="local")
    reach = Reach(wrap=wrap, ssh_options=("-F", "cfg"))
    assert Local().argv(host, reach) == [*wrap, "python3", "-I", "-S", "-B", "-c", LOADER]
    reached = command(parse_hosts("local")[0], Reach(ssh_options=("-F", "cfg"), connect_seconds=1))
    assert reached == command(parse_hosts("local")[0], Reach())


def test_nothing_lies_between_this_machine_and_itself():
    """What fails is the command's own, and is not tried again."""
    assert Local().explain("local", 255, "Permission denied") == ""
    assert not Local().is_worth_a_retry("Connection reset by peer")
    assert Local().log_in_hint("local") == "check --python and --wrap"
