"""Is it told which login a script failed at, from all that it printed?"""

from __future__ import annotations

from preflight.job.measure.rehearsal.logins import says
from tests.job.measure.rehearsal.stories import cast, node, story


def said(err, missing=("node1",), code=None):
    """What is told where the script of node1 printed this."""
    return says(missing, story(node("node1", code=code, err=err), node("node2")), cast(scripts=("node1",)))


def test_what_ssh_printed_is_told_before_later_words():
    """With what it means."""
    text = said("node1: Host key verification failed.\nframe #3: torch\n[W1127 x] [c10d] warning\n")
    assert text.startswith("; ssh to node1: the host key is unknown or has changed")


def test_of_several_nodes_the_one_that_the_line_names():
    """A line that names none of them is no reason for one."""
    line = "node2: Permission denied (publickey).\n"
    assert said(line, ("node1", "node2")).startswith("; ssh to node2: login refused")
    assert said("Permission denied (publickey).\n", ("node3", "node4")) == "; it says: Permission denied (publickey)."


def test_a_script_that_has_ended_says_so_elsewhere():
    """Its last words stand beside its exit code."""
    assert said("Host key verification failed.\n", code=1) == ""
