"""Does every node answer, and is each of them a machine of its own?"""

from preflight.said import joined, said
from preflight.said.errors import Blame


def test_every_node_answers(node):
    """Every node can be reached, runs Python, and says who it is.

    One node that does not answer keeps all the others waiting: the job hangs until its start times out.
    Fix: `ssh <node> python3 -V` must print a version without asking anything; correct the login, or name other hosts.
    """
    assert node.identity.hostname, "the node answered without a hostname"


def test_no_machine_is_named_twice(cluster):
    """No two names of the host list lead to the same machine.

    Two sets of ranks on one machine fight for its GPUs (NCCL: "Duplicate GPU detected"), and its peers wait forever.
    Fix: name every machine once in --hosts; `cat /proc/sys/kernel/random/boot_id` differs on different machines.
    """
    cluster.needs_peers()
    # Containers share a boot id with their neighbours, but not their addresses.
    machines = cluster.group_by(lambda node: (node.identity.boot_id, node.network.reachable_addresses))
    twice = [names for names in machines.values() if len(names) > 1]
    if twice:
        message = joined(" and ".join(names) for names in twice)
        raise Blame(
            said("one machine under several names: {message}", message),
            nodes=[name for names in twice for name in names],
        )
