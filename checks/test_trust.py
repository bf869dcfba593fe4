"""Can the nodes log in to each other, where the launch does so?"""

import pytest

from preflight.judge.tables import packages
from preflight.said import said
from preflight.said.errors import Blame, NotApplicable


def test_every_node_logs_in_to_the_others(node):
    """Every node can log in to every other one by ssh without being asked anything, and the first one to itself.

    deepspeed, pdsh and mpirun start the ranks of other nodes that way: one password, unknown host key or closed port
    ends the launch, or leaves it waiting. deepspeed, pdsh and colossalai do so on the node they are started on, too:
    its own key must be among those that it lets in. Where the launch logs in from the first node, it is a failure
    there, else a warning.
    Fix: `ssh-copy-id <peer>` on the nodes named, and `ssh-keyscan <peer> >> ~/.ssh/known_hosts`.
    """
    failed = [login for login in node.trust.logins if login.trouble]
    if not failed:
        return
    message = ", ".join(
        said("{peer} ({trouble})", "itself" if login.peer == node.name else login.peer, login.trouble)
        for login in failed[:4]
    )
    more = said(" and {failed} more", len(failed) - 4) if failed[4:] else ""
    words = said("cannot log in to {message}{more}", message, more)
    by_all = set(node.trust.launchers) - {"mpirun", "horovodrun"}  # these start what runs on their own node without ssh
    is_sure = by_all or (node.trust.launchers and any(login.peer != node.name for login in failed))
    raise Blame(words, nodes=[node.name], is_advisory=not is_sure)


def test_programs_of_the_launch_are_there(cluster):
    """The first node has the program that the launch starts the other nodes with, and the variables it takes for set.

    DeepSpeed and accelerate call pdsh unless --launcher says otherwise, and end at once where it is not installed.
    DeepSpeed to 0.14.0 adds --ssh_port to PDSH_SSH_ARGS_APPEND, and ends with KeyError where that is not set.
    Fix: install the program named (`apt-get install pdsh`), or `--launcher openmpi` or `slurm`; `export
    PDSH_SSH_ARGS_APPEND=` in the line that starts the job.
    """
    cluster.needs_peers()
    first = cluster.first
    if not first.trust.programs:
        raise NotApplicable("no launch file starts other nodes by a program of this node")
    lacking = [name for name, path in first.trust.programs.items() if not path]
    if lacking:
        message = said("the launch calls {programs}, which PATH does not have", " and ".join(lacking))
        raise Blame(message, nodes=[first.name])
    version = first.software.packages.get("deepspeed", "")
    unset = [name for name in first.trust.unset if name.startswith("PDSH")]
    if unset and packages.is_within(version, ">=0.11,<0.14.1"):
        names = " ".join(f"{name}=" for name in unset)
        message = said("deepspeed {version} with --ssh_port needs {names} set, and it is not", version, names)
        raise Blame(message, nodes=[first.name], fix=said("`export {names}` in the line that starts the job", names))


@pytest.mark.advisory
def test_python_is_found_over_ssh(node):
    """The job's Python is on the PATH that a command over ssh gets.

    Such a shell reads no ~/.profile and often not all of ~/.bashrc: "python: No such file or directory" on every node.
    Fix: name the interpreter with its full path in the launch, or set PATH above the `return` in ~/.bashrc.
    """
    lost = [login.peer for login in node.trust.logins if not login.trouble and not login.python]
    assert not lost, said("over ssh, the job's Python is not found on {lost}", ", ".join(lost[:8]))


@pytest.mark.advisory
def test_start_files_print_nothing_over_ssh(cluster):
    """A command over ssh prints its own output alone.

    A start file of the shell that prints a banner, or what `nvm use` and the like say, does so into every command:
    deepspeed takes the first word of `ssh <first host> hostname -I` for the address of rank 0, and scp, rsync and sftp
    end with a protocol error.
    Fix: put `[[ $- == *i* ]] || return` above the lines of ~/.bashrc that print, or send them to `>&2`.
    """
    logins = cluster.of_those_asked(lambda node: node.trust.logins)  # of many nodes only the first logs in
    if not any(logins.values()):
        raise NotApplicable("no node logs in to another one")
    printed = {login.peer: login.printed for found in logins.values() for login in found if login.printed}
    if printed:
        first, *others = printed
        more = said(" (and {others} more)", len(others)) if others else ""
        message = said(
            "over ssh, {first}{more} prints {printed} before the output of a command", first, more, repr(printed[first])
        )
        met = [name for name, found in logins.items() if any(login.printed for login in found)]
        raise Blame(message, nodes=[name for name in cluster.names if name in printed] or met)


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
