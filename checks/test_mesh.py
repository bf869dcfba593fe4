"""Can every node open connections to every other, on the ports that NCCL and gloo really use?"""

from preflight.errors import BlameMany


def test_every_node_reaches_every_other_on_random_ports(mesh):
    """Every node can connect to every other one on a random port of the training interface, and data comes through.

    NCCL and gloo listen on ports that the kernel picks: with MASTER_PORT alone open, a job starts, joins, and hangs
    at its first collective. One direction is enough to hang it.
    Fix: let the nodes reach each other on all TCP ports, in both directions (`nft list ruleset`, `iptables -S`, or the
    cloud's security group), at least on the range that `sysctl net.ipv4.ip_local_port_range` prints.
    """
    blames = mesh.blames()
    if blames:
        raise BlameMany(blames)
