"""Can the nodes log in to each other, where the launch does so?"""

import pytest

from preflight.errors import Blame, NotApplicable
from preflight.said import said


@pytest.mark.advisory
def test_every_node_logs_in_to_the_others(node):
    """Every node can log in to every other one by ssh without being asked anything.

    deepspeed, pdsh and mpirun start the ranks of other nodes that way: one password, unknown host key or closed port
    ends the launch, or leaves it waiting.
    Fix: `ssh-copy-id <peer>` on the nodes named, and `ssh-keyscan <peer> >> ~/.ssh/known_hosts`.
    """
    failed = [login for login in node.trust.logins if login.trouble]
    message = ", ".join(f"{login.peer} ({login.trouble})" for login in failed[:4])
    more = said(" and {failed} more", len(failed) - 4) if failed[4:] else ""
    assert not failed, said("cannot log in to {message}{more}", message, more)


@pytest.mark.advisory
def test_python_is_found_over_ssh(node):
    """The job's Python is on the PATH that a command over ssh gets.

    Such a shell reads no ~/.profile and often not all of ~/.bashrc: "python: No such file or directory" on every node.
    Fix: name the interpreter with its full path in the launch, or set PATH above the `return` in ~/.bashrc.
    """
    lost = [login.peer for login in node.trust.logins if not login.trouble and not login.python]
    assert not lost, said("over ssh, the job's Python is not found on {lost}", ", ".join(lost[:8]))


@pytest.mark.advisory
def test_first_address_of_the_first_node_is_the_one_to_reach(cluster):
    """The first address that the first node lists is the one on its training interface.

    deepspeed tells all nodes what `hostname -I` prints first there, whatever MASTER_ADDR says: with a bridge or a
    second card in front, they look for rank 0 where no peer can reach it.
    Fix: start with `deepspeed --master_addr=<address of the training interface>`.
    """
    cluster.needs_peers()
    first = cluster.first
    if not first.trust.logins:
        raise NotApplicable("no node logs in to another one")
    listed, right = first.network.first_address(), first.network.training_interface.address()
    if listed != right:
        message = said(
            "`hostname -I` on {name} begins with {listed}; its training interface has {right}",
            first.name,
            listed,
            right,
        )
        raise Blame(message, nodes=[first.name], fix=said("start with `deepspeed --master_addr={right}`", right))
