"""Can every node open connections to every other, on the ports that NCCL and gloo really use?"""

from preflight.said.errors import BlameMany


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


def test_every_node_reaches_the_port_of_rank_0(mesh):
    """Every node can connect to MASTER_PORT on the first node, and data comes through.

    Rank 0 listens there, and all ranks meet at it: where a firewall drops this port, the others say "Socket Timeout"
    after minutes. The port is the one of the launch files, or of the environment; preflight listens on it for a moment.
    Fix: let all nodes reach the port on the first node: `ufw allow <port>/tcp`, `firewall-cmd --add-port=<port>/tcp`,
    or the cloud's security group; best all TCP ports between the nodes of the job.
    """
    blames = mesh.blames_of_port()
    if blames:
        raise BlameMany(blames)
