"""Real hosts: what only a process of the job sees of its container, its caches and its launcher. Is it named?"""

from __future__ import annotations

import contextlib

from tests.e2e.test_rehearse import BIN, HEAD, LIMITS, NUMBER, PLAIN, SCRIPTS, TRAINING, Rehearsed, on_node2, write
from tests.e2e.test_rehearse_launchers import YAML
from tests.e2e.test_rehearse_remote import folder, lab
from tests.lab import faults

__all__ = ["folder", "lab"]
CONTAINER = "nsenter --net=/run/netns/container"  # as `docker run` without --network=host
BRIDGE = """
ip netns add container
ip link add bridge type veth peer name eth0 netns container
ip address add 172.30.0.1/24 dev bridge
ip link set bridge up
ip -n container address add 172.30.0.2/24 dev eth0
ip -n container link set eth0 up
ip -n container link set lo up
ip -n container route add default via 172.30.0.1
echo 1 > /proc/sys/net/ipv4/ip_forward
nft 'add table ip container; add chain ip container out { type nat hook postrouting priority 100; }'
nft 'add rule ip container out ip saddr 172.30.0.0/24 masquerade'
"""
NO_BRIDGE = "nft delete table ip container; ip link del bridge; ip netns del container"


@contextlib.contextmanager
def bridged(host):
    """The host has a network for containers, which reach others through its address and are reached by none."""
    host.check(["bash", "-ec", BRIDGE])
    try:
        yield
    finally:
        host.run(["bash", "-c", NO_BRIDGE])


def only(found, nodes):
    """The one thing that is bad on these nodes, and the lines of the script."""
    ((check, verdict, where, message),) = found.bad()
    lines = [w["line"] for f in found.report["findings"] if f["verdict"] == "fail" for w in f["where"]]
    assert (found.code, verdict, where) == (1, "fail", nodes), found
    return check, message, lines


def test_a_container_without_the_network_of_its_host(lab, folder):
    """It reaches the others, and rank 0 in it is reached by nobody."""
    within = f'if [ "$(hostname)" = node1 ]; then exec {CONTAINER} python train.py; fi\npython train'
    with bridged(lab["node1"]):
        found = Rehearsed(lab, folder, write(folder, PLAIN.replace("python train", within)), "--deadline=100")
    check, message, lines = only(found, ("node1",))
    assert check == TRAINING
    assert "the ranks on node1 are in a network of their own, as a container without the host's network" in message
    assert 7 in lines


def test_a_lock_that_was_left_in_the_cache_of_triton(lab, folder):
    """Whoever compiles the same kernel waits for it; one beside a kernel that was finished is of no build."""
    root = "/root/.triton/cache"
    host = lab["node2"]
    host.check(["bash", "-ec", f"mkdir -p {root}/KILLED {root}/DONE; touch -d '1 hour ago' {root}/KILLED/lock"])
    host.check(["bash", "-ec", f"touch -d '2 hours ago' {root}/DONE/lock; echo {{}} > {root}/DONE/__grp__add.json"])
    try:
        found = Rehearsed(lab, folder, write(folder, PLAIN), "--deadline=100")
    finally:
        host.check(["rm", "-r", "/root/.triton"])
    check, message, _ = only(found, ("node2",))
    assert check == LIMITS
    assert f"{root}/KILLED/lock was left on node2" in message


def test_a_launcher_older_than_the_file_asks(lab, folder):
    """A key of accelerate that is known from a later version on."""
    text = YAML.format(rank=0, machines=2, processes=2, backend="static")
    (folder / "own.yaml").write_text(text + "parallelism_of_tomorrow: {}\n")
    head = HEAD.replace("{folder}", str(folder)) + f"export PATH={BIN}:$PATH\n"
    write(folder, head + f"accelerate launch --config_file own.yaml --machine_rank {NUMBER} train.py\n")
    check, message, lines = only(Rehearsed(lab, folder, "run.sh", "--deadline=100"), ("node1", "node2"))
    assert check == SCRIPTS
    assert "parallelism_of_tomorrow" in message
    assert lines == [5]


def test_a_launcher_that_is_older_on_one_node(lab, folder):
    """The option is known on node1 alone."""
    older = folder / "older"
    older.mkdir()
    program = f"#!{BIN}/python\nimport argparse\np = argparse.ArgumentParser(prog='torchrun')\n"
    program += (
        "p.add_argument('--nnodes'); p.add_argument('--nproc_per_node'); p.add_argument('program', nargs='...')\n"
    )
    (older / "torchrun").write_text(program + "p.parse_args()\n")
    (older / "torchrun").chmod(0o755)
    text = HEAD.replace("{folder}", str(folder)) + f"export PATH={BIN}:$PATH\n"
    text += on_node2(f"PATH={older}:$PATH")
    text += f"torchrun --nnodes=2 --nproc_per_node=1 --node-rank={NUMBER} --master-addr=node1 train.py\n"
    check, message, lines = only(Rehearsed(lab, folder, write(folder, text), "--deadline=100"), ("node2",))
    assert check == SCRIPTS
    assert "unrecognized arguments" in message or "--node-rank" in message
    assert lines == [6]


def test_an_address_that_the_node_itself_cannot_reach(lab, folder):
    """Its own name leads the other nodes to it, and itself to an address that it has not."""
    with faults.hostname_resolves_to(lab["node1"], "10.255.255.1"):
        found = Rehearsed(lab, folder, write(folder, PLAIN), "--deadline=100")
    check, message, lines = only(found, ("node1",))
    assert check == TRAINING
    assert "10.255.255.1" in message
    assert 2 in lines
