"""Can the nodes log in to each other, where the launch does so?"""

import pytest


@pytest.mark.advisory
def test_every_node_logs_in_to_the_others(node):
    """Every node can log in to every other one by ssh without being asked anything.

    deepspeed, pdsh and mpirun start the ranks of other nodes that way: one password, unknown host key or closed port
    ends the launch, or leaves it waiting.
    Fix: `ssh-copy-id <peer>` on the nodes named, and `ssh-keyscan <peer> >> ~/.ssh/known_hosts`.
    """
    failed = [login for login in node.trust.logins if login.trouble]
    told = ", ".join(f"{login.peer} ({login.trouble})" for login in failed[:4])
    more = f" and {len(failed) - 4} more" if failed[4:] else ""
    assert not failed, f"cannot log in to {told}{more}"


@pytest.mark.advisory
def test_python_is_found_over_ssh(node):
    """The job's Python is on the PATH that a command over ssh gets.

    Such a shell reads no ~/.profile and often not all of ~/.bashrc: "python: No such file or directory" on every node.
    Fix: name the interpreter with its full path in the launch, or set PATH above the `return` in ~/.bashrc.
    """
    lost = [login.peer for login in node.trust.logins if not login.trouble and not login.python]
    assert not lost, f"over ssh, the job's Python is not found on {', '.join(lost[:8])}"
