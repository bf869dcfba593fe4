"""On real hosts over ssh: are the faults gone once what a run printed was typed, and nothing else with them?

A command may be shown as tried only if its row stands here: planted raw, typed, green after it, no other check worse,
and typed a second time it changes nothing more.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from preflight.judge.commands.tried import TRIED
from tests.lab import faults, name_server, rdma
from tests.lab.lab import SUBNET, Lab
from tests.lab.network import ip

QUICK = ("--preflight-profile=quick", "--color=no", "-p", "no:hypothesispytest")
FACTS_ONLY = (*QUICK, "-k", "not mesh")
HOSTS = "127.0.0.1 localhost\n{}"


# The host's own devices in place of the machine's, and a plain file where a program has moved its output over one.
DEVICES = """
mount -t tmpfs -o mode=755 own-devices /mnt
cp -a /dev/null /dev/full /dev/random /dev/urandom /dev/tty /dev/ptmx /dev/fd /dev/stdin /dev/stdout /dev/stderr /mnt
mkdir /mnt/shm /mnt/pts
mount --rbind /dev/shm /mnt/shm
mount --rbind /dev/pts /mnt/pts
mount --move /mnt /dev
: > /dev/zero
"""


def plant_names(lab):
    """Lines of /etc/hosts and of /etc/nccl.conf, interfaces, routes, files, a device."""
    one, two, three = (lab[f"node{number}"] for number in (1, 2, 3))
    own = {host: f"{host.address} {host.name}\n" for host in (one, two, three)}
    one.write_file("/etc/hosts", HOSTS.format(f"{own[one]}10.9.9.9 node2\n"))  # a stale peer, and one unknown
    two.write_file("/etc/hosts", HOSTS.format(f"127.0.1.1 node2\n{own[one]}{own[three]}"))  # as Debian's installer
    three.write_file("/etc/hosts", HOSTS.format(f"10.99.0.9 node3\n{own[one]}{own[two]}"))
    ip(three.space, ["link set dev eth0 mtu 1400"])
    for host in (one, two):
        ip(host.space, [f"route add default via {lab.hosts[2].address}"])
    two.add_interface("astray", "10.78.0.2/24")
    ip(two.space, [f"route add {one.address}/32 dev astray"])
    two.check(["sysctl", "-q", "-w", "net.ipv4.ip_local_port_range=40000 41000"])
    one.check(["mkdir", "/dev/shm/preflight-left"])
    two.check(["mount", "-o", "remount,size=1m", "/dev/shm"])
    one.check(["mount", "-o", "remount,noexec", "/tmp"])
    lines = ("NCCL_IB_DISABLE=true", "NCCL_FROBNICATE=1", "NCCL_PROTO=Simple", "NCCL_DEBUG=TRACE", "NCCL_HOSTID=gpu")
    two.write_file("/etc/nccl.conf", "\n".join(lines) + "\n")
    three.write_file("/etc/nccl.conf", "NCCL_HOSTID=gpu\n")
    lab["node4"].check(["sh", "-ec", DEVICES])


def plant_variables(lab):
    """What shells of the nodes set, and adapters of which they speak wrongly."""
    lab["node2"].add_interface("astray", "10.78.0.2/24")
    for number in (1, 2, 3, 4):
        devices = [rdma.RdmaDevice(f"mlx5_{place}") for place in (0, 1, 10)]
        lab[f"node{number}"].rdma_tree(devices)
    same = {"NCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "eth0"}
    lab["node1"].restart_sshd(
        {
            **same,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "40000",
            "NCCL_IB_HCA": "mlx5_1",
            "NCCL_IB_GID_INDEX": "9",
            "http_proxy": "http://proxy:3128",
        }
    )
    lab["node2"].restart_sshd(
        {
            **same,
            "GLOO_SOCKET_IFNAME": "astray",
            "MASTER_ADDR": "node2",
            "MASTER_PORT": "29501",
            "NCCL_IB_HCA": "mlx4_0",
            "NCCL_IB_GID_INDEX": "3",
        }
    )
    lab["node3"].restart_sshd(
        {
            "GLOO_SOCKET_IFNAME": "ib9",
            "NCCL_SOCKET_IFNAME": "eth0",
            "NCCL_IFNAME": "eth0",
            "CUDA_LAUNCH_BLOCKING": "1",
            "NCCL_IB_HCA": "=mlx5_0,mlx5_1,mlx5_10",
            "NCCL_IB_GID_INDEX": "2",
            "NODE_RANK": "0",
            "LD_PRELOAD": "",
        }
    )
    lab["node4"].restart_sshd(same)
    for host in lab.hosts:  # what a person's login has, and no command over ssh
        host.write_file("/root/.bash_profile", "export NCCL_CROSS_NIC=1\n")


def plant_filters(lab):
    """Rules of nft: one host drops what comes from others, so that also rank 0's port is closed."""
    faults.drop_incoming_high_ports(lab["node1"])
    for host in lab.hosts:
        host.restart_sshd({"MASTER_ADDR": lab["node1"].address, "MASTER_PORT": "29500"})


ITSELF = """table inet own {{
  chain input {{
    type filter hook input priority 0; policy accept;
    iif "lo" ip daddr {address} tcp flags & (syn | ack) == syn drop
  }}
}}
"""


def plant_second_addresses(lab):
    """A peer's name with two addresses, the wrong one first; a host that does not reach itself; one of IPv6 by name."""
    one, two, three = (lab[f"node{number}"] for number in (1, 2, 3))
    own = {host: f"{host.address} {host.name}\n" for host in (one, two, three)}
    wrong = f"{two.address} node1\n"  # nearer to node3 than the right one, as getaddrinfo counts
    three.write_file("/etc/hosts", HOSTS.format(f"{own[one]}{wrong}{own[two]}{own[three]}"))
    three.write_file("/etc/host.conf", "multi on\n")
    nft(two, ITSELF.format(address=two.address))
    four = lab["node4"]
    ip(four.space, ["address add fd00:77::4/64 dev eth0 nodad"])
    four.write_file("/etc/hosts", HOSTS.format(f"{''.join(own.values())}fd00:77::4 node4\n"))


def plant_full_names(lab):
    """Full names and names of addresses that lead astray, localhost without a line, a token in a shared folder."""
    (lab.shared / ".preflight-0badcafe-node1").touch()
    one, two, three = (lab[f"node{number}"] for number in (1, 2, 3))
    lines = {host: f"{host.address} {host.name}.rack {host.name}\n" for host in lab.hosts}
    every = "".join(lines.values())
    astray = every.replace(lines[two], f"{two.address} {two.name}\n10.99.0.9 {two.name}.rack\n")
    one.write_file("/etc/hosts", HOSTS.format(astray))
    two.write_file("/etc/hosts", every)
    three.write_file("/etc/hosts", HOSTS.format(f"{one.address} stray\n{two.address} stray\n{every}"))
    lab["node4"].write_file("/etc/hosts", HOSTS.format(every))
    for number, host in enumerate(lab.hosts, 1):  # rank 0's address is one of a card that nobody trains on
        host.add_interface("eth1", f"10.79.0.{number}/24")
        host.restart_sshd({"MASTER_ADDR": "10.79.0.1", "MASTER_PORT": "29500"})


def plant_interfaces(lab):
    """Interfaces that NCCL or Gloo take, and should not: of another network, of the same one, a VLAN, a bridge."""
    one, two, three, four = (lab[f"node{number}"] for number in (1, 2, 3, 4))
    two.add_interface("ib0", "10.81.0.2/24")
    ip(three.space, ["link add eth1 type veth peer name far1", "link set far1 up", "link set eth1 up"])
    ip(three.space, [f"address add {SUBNET}.77/24 dev eth1"])
    one.add_interface("eth0.9", "10.90.0.1/24")
    one.restart_sshd({"NCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "eth0"})
    ip(four.space, ["link add docker0 type bridge", "address add 172.17.0.1/16 dev docker0", "link set docker0 up"])
    four.restart_sshd({"NCCL_SOCKET_IFNAME": "docker0", "GLOO_SOCKET_IFNAME": "docker0"})


def plant_name_servers(lab):
    """Rank 0's name that one node takes for another machine, an own name of a second card, and slow name servers."""
    one, two, three, four = lab.hosts
    known = [f"{host.name}={host.address}" for host in lab.hosts] + [f"head={one.address}"]
    for host, wait in ((one, "never"), (four, "0.9")):
        host.check([sys.executable, "-I", "-S", name_server.__file__, host.address, wait, *known])
    for host, server in ((one, one), (two, one), (three, four)):  # two is told no name of an address, three late
        host.write_file("/etc/hosts", HOSTS.format(f"{host.address} {host.name}\n"))
        host.write_file("/etc/resolv.conf", f"nameserver {server.address}\noptions timeout:5 attempts:1\n")
    one.add_interface("eth1", "10.79.0.1/24")
    every = "".join(f"{host.address} {host.name}\n" for host in lab.hosts)
    two_first = every.replace(f"{one.address} {one.name}\n", "10.79.0.1 node1\n")
    # It has a line for each of the others, and none for the address by which torch's store sees them.
    one.write_file("/etc/hosts", HOSTS.format(f"{two_first}{one.address} head\n"))
    four.write_file("/etc/hosts", HOSTS.format(f"{every}10.99.0.9 head\n"))
    for host in lab.hosts:
        same = {"NCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "eth0"}
        host.restart_sshd({**same, "MASTER_ADDR": "head", "MASTER_PORT": "29500"})


def plant_alone(lab):
    """One host whose own name nobody knows, as `unshare --uts` or a bare container leaves it."""
    lab["node1"].write_file("/etc/hosts", HOSTS.format(""))


def nft(host, rules):
    """Load rules of nft on a host."""
    subprocess.run([*host.space.enter("net"), "nft", "-f", "-"], input=rules, text=True, check=True)


@dataclass(frozen=True)
class Trial:
    """Faults planted together, the rows whose commands they are a trial of, and the words of the run.

    {shared} in a word is the folder that all hosts have.
    """

    plant: Callable[[Lab], None]
    rows: frozenset[str]
    words: tuple[str, ...] = FACTS_ONLY
    hosts: int = 4


TRIALS = (
    Trial(
        plant_names,
        frozenset(
            {
                "environment.nothing_is_left_from_debugging",
                "environment.other_variables_are_the_same_on_every_node",
                "environment.values_are_possible",
                "environment.variables_exist",
                "environment.variables_of_all_ranks_agree",
                "environment.what_sets_nodes_apart_is_each_nodes_own",
                "files.places_can_be_written_to",
                "limits.devices_of_every_program_are_there",
                "limits.shared_memory_is_enough",
                "names.own_hostname_is_an_address_of_the_node",
                "names.own_hostname_is_not_loopback",
                "names.peers_can_be_resolved",
                "network.default_routes_are_alike",
                "network.mtu_is_the_same_on_every_node",
                "network.routes_to_peers_leave_by_the_training_interface",
                "ports.ephemeral_ports_are_enough",
            }
        ),
    ),
    Trial(
        plant_variables,
        frozenset(
            {
                "environment.a_persons_shell_has_the_variables_of_the_job",
                "environment.proxies_leave_the_peers_out",
                "master.address_belongs_to_the_first_node",
                "master.port_is_outside_the_ephemeral_range",
                "master.variables_are_the_same_on_every_node",
                "network.interface_variables_match_an_interface",
                "network.training_addresses_share_a_subnet",
                "rdma.gid_index_exists_on_every_node",
                "rdma.gid_index_is_routable_roce_v2",
                "rdma.nccl_ib_hca_matches_a_port",
                "rdma.nccl_ib_hca_takes_no_more_than_it_names",
            }
        ),
    ),
    Trial(
        plant_filters,
        frozenset(
            {
                "mesh.every_node_reaches_every_other_on_random_ports: nft",
                "mesh.every_node_reaches_the_port_of_rank_0: nft",
            }
        ),
        QUICK,
    ),
    Trial(
        plant_second_addresses,
        frozenset(
            {
                "names.every_node_reaches_itself: nft",
                "names.every_node_speaks_one_address_family: own hostname",
                "names.peers_are_taken_for_themselves",
            }
        ),
    ),
    Trial(
        plant_interfaces,
        frozenset(
            {
                "network.interfaces_of_nccl_have_subnets_of_their_own",
                "network.nccl_starts_on_an_interface_of_the_peers",
                "network.nccl_takes_no_more_interfaces_than_meant",
                "network.training_interface_is_a_real_one",
            }
        ),
    ),
    Trial(
        plant_name_servers,
        frozenset(
            {
                "master.address_leads_every_node_to_the_first",
                "master.first_node_knows_the_address_for_its_own",
                "names.look_ups_are_answered",
                "names.look_ups_are_fast",
            }
        ),
    ),
    Trial(plant_alone, frozenset({"names.own_hostname_is_an_address_of_the_node"}), hosts=1),
    Trial(
        plant_full_names,
        frozenset(
            {
                "files.no_token_is_left_behind",
                "master.address_is_on_the_training_interface",
                "names.full_names_of_peers_lead_to_them",
                "names.localhost_is_the_node_itself",
                "names.reverse_names_lead_back",
            }
        ),
        (*FACTS_ONLY, "--shared={shared}"),
    ),
)


class Judged:
    """What one run finds wrong."""

    def __init__(self, lab: Lab, folder, words):
        words = [word.format(shared=lab.shared) for word in words]
        argv = [sys.executable, "-m", "pytest", f"--hosts={lab.names}", f"--python={sys.executable}", *words]
        done = lab.run([*argv, f"--report-dir={folder}"], timeout_s=100)
        self.output = done.stdout + done.stderr
        assert (folder / "report.json").exists(), self.output
        self.folder = folder
        self.report = json.loads((folder / "report.json").read_text())
        self.bad = [finding for finding in self.report["findings"] if finding["verdict"] in ("fail", "warn")]
        self.cells = {(finding["check"], node) for finding in self.bad for node in finding["nodes"]}
        green = [finding for finding in self.report["findings"] if finding["verdict"] == "pass"]
        self.passed = {(finding["check"], node) for finding in green for node in finding["nodes"]}

    def rows(self) -> set[str]:
        """The rows of commands that it used."""
        return {command["row"] for finding in self.bad for command in finding.get("commands", ())}


def typed(lab, run):
    """The script that the run offers, run where it was started; and each node's own variables, as its lines say."""
    done = lab.run([sys.executable, "-m", "preflight", "report", str(run.folder), "--format=fix"])
    script = run.folder / "fix.sh"
    script.write_text(done.stdout)
    output = lab.run(["sh", "-x", str(script)], timeout_s=60)
    for host in lab.hosts:
        now = [
            command["now"]
            for finding in run.report["findings"]
            for command in finding.get("commands", ())
            if command["is_for_job"] and command["node"] == host.name
        ]
        if now:
            words = [f"{name}={value}" for name, value in host.session_environment.items()]
            shell = ["env", "-i", *words, "sh", "-c", "\n".join([*dict.fromkeys(now), "/usr/bin/env -0"])]
            text = subprocess.run(shell, capture_output=True, text=True, check=True).stdout
            held = dict(line.partition("=")[::2] for line in text.split("\0") if "=" in line)
            host.restart_sshd(
                {name: value for name, value in held.items() if name not in ("PWD", "_", "SHLVL", "OLDPWD")}
            )
    return output.stdout + output.stderr


STATE = """
cat /etc/hosts /etc/nccl.conf /etc/fstab /etc/sysctl.d/* /etc/security/limits.d/* /etc/modules-load.d/* 2>/dev/null
ip -oneline link; ip -brief address; ip route; nft list ruleset; ls /dev/shm; findmnt -n /dev/shm /tmp
sysctl net.ipv4.ip_local_port_range
"""


def state(lab):
    """All that the commands change, of every host."""
    return {host.name: (host.run(["sh", "-c", STATE]).stdout, dict(host.session_environment)) for host in lab.hosts}


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.plant.__name__)
def test_what_a_run_prints_mends_what_it_found(make_lab, tmp_path, trial):
    """Each row's check is red before and green after its command, no other is worse, and twice is the same as once."""
    lab = make_lab(trial.hosts)
    trial.plant(lab)
    before = Judged(lab, tmp_path / "before", trial.words)
    said = typed(lab, before)
    once = state(lab)
    said += typed(lab, before)
    assert state(lab) == once, said
    after = Judged(lab, tmp_path / "after", trial.words)
    words = f"{before.output}\n{said}\n{after.output}"
    assert trial.rows <= before.rows(), f"{sorted(trial.rows - before.rows())}\n{words}"
    tried = {row.partition(": ")[0] for row in trial.rows}
    assert {(check, node) for check, node in after.cells if check in tried} == set(), words
    assert after.cells & before.passed == set(), words
    assert not re.search(r"syntax error|unexpected", said)


def test_only_what_was_tried_here_is_called_tried():
    """Whoever adds a row of commands adds its fault to a trial, or has it shown as untested."""
    assert frozenset().union(*(trial.rows for trial in TRIALS)) == TRIED
