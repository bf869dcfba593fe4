"""On real hosts over ssh: are the faults gone once what a run printed was typed?"""

from __future__ import annotations

import json
import re
import subprocess
import sys

from tests.lab import rdma
from tests.lab.network import ip

FACTS_ONLY = ("--preflight-profile=quick", "--color=no", "-p", "no:hypothesispytest", "-k", "not mesh")
HOSTS = "127.0.0.1 localhost\n{}"


def plant_names(lab):
    """Lines of /etc/hosts and of /etc/nccl.conf, interfaces, routes, files."""
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


def plant_variables(lab):
    """What shells of the nodes set, and adapters of which they speak wrongly."""
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
            "NCCL_IB_GID_INDEX": "0",
        }
    )
    lab["node3"].restart_sshd(
        {
            "GLOO_SOCKET_IFNAME": "ib9",
            "NCCL_SOCKET_IFNAME": "eth0",
            "NCCL_IFNAME": "eth0",
            "CUDA_LAUNCH_BLOCKING": "1",
            "NCCL_IB_HCA": "=mlx5_0,mlx5_1,mlx5_10",
            "NCCL_IB_GID_INDEX": "3",
            "NODE_RANK": "0",
            "LD_PRELOAD": "",
        }
    )
    lab["node4"].restart_sshd(same)


def judged(lab, folder):
    """Check -> its nodes, of what a run of the checks of facts alone finds wrong."""
    argv = [sys.executable, "-m", "pytest", "--hosts=node[1-4]", f"--python={sys.executable}", *FACTS_ONLY]
    done = lab.run([*argv, f"--report-dir={folder}"], timeout_s=100)
    assert (folder / "report.json").exists(), done.stdout + done.stderr
    report = json.loads((folder / "report.json").read_text())
    bad = {finding["check"] for finding in report["findings"] if finding["verdict"] in ("fail", "warn")}
    return bad, report, done.stdout + done.stderr


def typed(lab, folder, report):
    """The script that the run offers, run where it was started; and each node's own variables, as its lines say."""
    done = lab.run([sys.executable, "-m", "preflight", "report", str(folder), "--format=fix"])
    script = folder / "fix.sh"
    script.write_text(done.stdout)
    output = lab.run(["sh", "-x", str(script)], timeout_s=60)
    for host in lab.hosts:
        now = [
            command["now"]
            for finding in report["findings"]
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


def test_what_a_run_prints_mends_what_it_found(make_lab, tmp_path):
    """Faults as the field has them, planted raw; the printed lines are run, and 25 checks find nothing any more."""
    lab = make_lab(4)
    mended: set[str] = set()
    told = []
    for number, plant in enumerate((plant_names, plant_variables)):
        plant(lab)
        before, report, output = judged(lab, tmp_path / f"before{number}")
        said = typed(lab, tmp_path / f"before{number}", report)
        after, last, _ = judged(lab, tmp_path / f"after{number}")
        with_commands = {finding["check"] for finding in report["findings"] if finding.get("commands")}
        mended |= (before & with_commands) - after
        stays = [
            f for f in last["findings"] if f["check"] in with_commands & after and f["verdict"] in ("fail", "warn")
        ]
        told += [output, said, *(json.dumps(finding, indent=1) for finding in stays)]
    words = "\n".join(told)
    assert len(mended) >= 25, f"{len(mended)}: {sorted(mended)}\n{words}"
    assert not re.search(r"syntax error|unexpected", words)
