"""How does a node's folder follow from the description of its platform?"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import amd, nvidia, sysfs
from .folder import TWIN, Folder, record, write
from .platform import Nic, Platform
from .sysfs import Link, Tree

PYTHON = "/usr/bin/python3"
SYSCTLS = {
    "vm/overcommit_memory": "0",
    "fs/file-nr": "9984\t0\t9223372036854775807",
    "vm/zone_reclaim_mode": "0",
    "vm/max_map_count": "65530",
    "user/max_user_namespaces": "15000",
    "vm/swappiness": "60",
    "kernel/yama/ptrace_scope": "1",
    "kernel/numa_balancing": "0",
    "kernel/pid_max": "4194304",
    "kernel/threads-max": "16512444",
    "net/core/rmem_max": "212992",
    "net/core/somaxconn": "4096",
    "net/ipv4/tcp_rmem": "4096\t131072\t6291456",
    "net/ipv4/tcp_congestion_control": "cubic",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/tcp_sack": "1",
    "net/ipv4/tcp_timestamps": "1",
    "net/ipv4/tcp_window_scaling": "1",
    "net/ipv6/conf/all/disable_ipv6": "0",
}
SINCE_START = 1e9  # seconds: longer than any machine runs
WITH_SITE = """#!/bin/bash
for word; do
  shift
  [ "$word" = -S ] || set -- "$@" "$word"
done
exec -a "$0" {python} "$@"
"""
STAND_IN = f"""#!/bin/sh
# Prints what the program of this name printed on the node for the same words.
file="/{TWIN}/outputs/${{0##*/}}${{1:+ }}$*"
if [ -e "$file" ]; then
  cat "$file"
  [ ! -e "$file.exit" ] || exit "$(cat "$file.exit")"
  exit 0
fi
echo "${{0##*/}}: unknown option $*" >&2
exit 2
"""


def make(platform: Platform, count: int, under: Path) -> list[Folder]:
    """The folders of node1 to node<count>."""
    names = {n: platform.hostname.format(n=n) for n in range(1, count + 1)}
    return [_make(platform, n, names, under / f"node{n}") for n in names]


def load(recording: Path, root: Path, name: str = "node1") -> Folder:
    """The folder of a node that was recorded by `preflight facts --record`, with an interpreter and its programs."""
    shutil.copytree(recording, root, symlinks=True)
    real = os.path.realpath(PYTHON)
    site = root / TWIN / f"env/lib/{Path(real).name}/site-packages"
    site.parent.mkdir(parents=True)
    (root / TWIN / "env/site-packages").rename(site)
    outputs = root / TWIN / "outputs"
    words = {path.name.partition(" ")[0] for path in outputs.iterdir()} if outputs.exists() else set()
    write(root, {**_interpreter(), **{f"usr/local/bin/{word}": STAND_IN for word in words}})
    return Folder(root, name)


def _make(described: Platform, n: int, names: dict[int, str], root: Path) -> Folder:
    platform = replace(
        described,
        nics=tuple(replace(nic, name=nic.name.format(n=n)) for nic in described.nics),
        hcas=tuple(replace(hca, name=hca.name.format(n=n)) for hca in described.hcas),
    )
    tree: Tree = {}
    for path, value in {
        **sysfs.pci(platform),
        **sysfs.interfaces(platform.nics, n),
        **sysfs.rdma(platform, n),
        **sysfs.cpu(platform),
        **({"module/mlx5_core/version": f"{platform.ofed}\n"} if platform.ofed else {}),
        **({"class/iommu/dmar0/intel-iommu/version": "1:0\n"} if platform.iommu else {}),
        **({"class/kfd/kfd/dev": "235:0\n"} if platform.gpus and platform.gpus.vendor == "amd" else {}),
        **{f"fs/cgroup/{name}": f"{text}\n" for name, text in platform.cgroup.items()},
    }.items():
        tree[f"sys/{path}"] = Link(f"/sys/{value.to}") if isinstance(value, Link) else value
    tree.setdefault("sys/fs/cgroup/cgroup.procs", "")
    tree |= _proc(platform, n)
    tree |= _etc(platform, n, names)
    tree |= _programs(platform, n, names)
    tree |= _environment(platform)
    if platform.has_log:
        lines = [*((line, SINCE_START) for line in platform.log), *((line, 300.0) for line in platform.log_since)]
        tree["dev/kmsg"] = "".join(record(i, line, age) for i, (line, age) in enumerate(lines))
    if platform.hcas and platform.has_rdma_core:
        tree |= {f"dev/infiniband/uverbs{i}": "" for i, hca in enumerate(platform.hcas) if hca.can_open}
        tree["usr/local/lib/libibverbs.so.1.14.50.0"] = ""
        tree["usr/local/lib/libibverbs.so.1"] = Link("libibverbs.so.1.14.50.0")
    if platform.container:
        tree["run/.containerenv"] = ""
    tree |= platform.files
    tree[f"{TWIN}/kernel.json"] = json.dumps(_kernel(platform, n, names[n]), indent=1)
    write(root, tree)
    return Folder(root, f"node{n}")


FLAGS = {
    "x86_64": "flags\t\t: fpu vme sse2 ht avx f16c fma avx2 avx512f avx512bw avx512vl\n",
    "aarch64": "Features\t: fp asimd evtstrm aes crc32 sve sve2 i8mm bf16\n",
}


def _proc(platform: Platform, n: int) -> Tree:
    kib = platform.memory_gib << 20
    tree: Tree = {
        "modules": "".join(f"{name} 1 0 - Live 0x0000000000000000\n" for name in platform.modules),
        "cmdline": f"BOOT_IMAGE=/boot/vmlinuz-{platform.kernel} {platform.boot}\n",
        "meminfo": f"MemTotal:       {kib} kB\nMemFree:        {kib * 9 // 10} kB\nMemAvailable:   {kib * 9 // 10} kB\n"
        "SwapTotal:             0 kB\nSwapFree:              0 kB\nHugePages_Total:       0\nHugePages_Free:        0\n"
        "Hugepagesize:       2048 kB\n",
        "cpuinfo": f"processor\t: 0\n{platform.cpu_line.format(cpu=platform.cpu)}\n{FLAGS.get(platform.machine, '')}",
        "vmstat": "nr_free_pages 1000000\noom_kill 0\n",
        "sys/kernel/random/boot_id": f"{uuid.UUID(int=0x4000_0000_0000_4000_8000_0000_0000_0000 + n)}\n",
        "sys/kernel/osrelease": f"{platform.kernel}\n",
        "self/cgroup": f"{platform.group}\n",
        "sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
        "sys/net/ipv4/ip_local_reserved_ports": "30000-32767\n",
        **{f"sys/{name}": f"{value}\n" for name, value in SYSCTLS.items()},
        "net/dev": "Inter-|   Receive  |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|"
        "bytes    packets errs drop fifo colls carrier compressed\n"
        + "".join(
            f"{name:>6}: 1000 10 0 0 0 0 0 0 1000 10 0 0 0 0 0 0\n"
            for name in ("lo", *(nic.name for nic in platform.nics))
        ),
    }
    tree["1/comm"] = "systemd\n"
    tree |= {f"{300 + i}/comm": f"{name[:15]}\n" for i, name in enumerate(platform.processes)}
    for nic in platform.nics:
        if nic.members:
            tree[f"net/bonding/{nic.name}"] = bond(platform, nic)
    vlans = {hca.netdev_vlan for hca in platform.hcas} - {""}
    for name in sorted(vlans):
        tree[f"net/vlan/{name}"] = f"{name}  VID: {name.rpartition('.')[2]}\t REORDER_HDR: 1  dev->priv_flags: 1021\n"
    if platform.gpus and platform.gpus.vendor == "nvidia" and platform.gpus.has_proc:
        kind = "UNIX Open Kernel Module for x86_64" if platform.gpus.is_open else "UNIX x86_64 Kernel Module"
        tree["driver/nvidia/version"] = f"NVRM version: NVIDIA {kind}  {platform.gpus.driver}  Release Build\n"
    return {f"proc/{name}": text for name, text in tree.items()}


def bond(platform: Platform, nic: Nic) -> str:
    """/proc/net/bonding/<bond>, as the kernel's bonding documentation shows it for 802.3ad."""
    head = (
        "Ethernet Channel Bonding Driver: v5.15\n\nBonding Mode: IEEE 802.3ad Dynamic link aggregation\n"
        "Transmit Hash Policy: layer3+4 (1)\nMII Status: up\nMII Polling Interval (ms): 100\n"
    )
    member = (
        "\nSlave Interface: {}\nMII Status: up\nSpeed: {} Mbps\nDuplex: full\nLink Failure Count: 0\n"
        "Slave queue ID: 0\nAggregator ID: 1\nActor Churn State: none\n"
    )
    speeds = {one.name: one.speed_mbps for one in platform.nics}
    return head + "".join(member.format(name, speeds[name]) for name in nic.members)


def _etc(platform: Platform, n: int, names: dict[int, str]) -> Tree:
    addresses = {m: _own_address(platform, m) for m in names}
    own = platform.own_name or addresses[n]
    full = {m: f"{name}.{platform.domain}" if platform.domain else name for m, name in names.items()}
    others = [f"{addresses[m]} {name}" for m, name in full.items() if m != n]
    own_line = f"{own} {' '.join(dict.fromkeys((full[n], names[n])))}"
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback", own_line, *others]
    return {
        "etc/hosts": "\n".join(lines) + "\n" + platform.hosts,
        "etc/resolv.conf": "",
        "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
        "etc/hostname": f"{names[n]}\n",
        **{f"etc/{name}": text.replace("{n}", str(n)) for name, text in platform.etc.items()},
    }


def _own_address(platform: Platform, n: int) -> str:
    first = next(address for nic in platform.nics for address in nic.addresses)
    return first.format(n=n).partition("/")[0]


def _programs(platform: Platform, n: int, names: dict[int, str]) -> Tree:
    tree: Tree = {}
    gpus = platform.gpus
    outputs: dict[str, str] = {}
    if gpus and gpus.vendor == "nvidia":
        outputs["nvidia-smi -q -x"] = nvidia.query_xml(gpus, n)
        outputs["nvidia-smi topo -m"] = nvidia.topology(gpus, platform.hcas, platform.topology)
        outputs["nvidia-smi nvlink -s"] = nvidia.nvlink_status(gpus, n)
        outputs["nvidia-smi topo -p2p r"] = outputs["nvidia-smi topo -p2p w"] = nvidia.peer_access(gpus)
        outputs["nvidia-smi nvlink -e"] = nvidia.nvlink_errors(gpus, n)
        if "nvidia-imex" in platform.processes:
            addresses = [_own_address(platform, m) for m in names]
            outputs["nvidia-imex-ctl -N -j"] = nvidia.imex_json(addresses)
            outputs["nvidia-imex-ctl -N"] = nvidia.imex_text(addresses, n)
    elif gpus:
        outputs |= amd.outputs(gpus, n)
    if platform.hcas:
        outputs["ibv_devinfo"] = devinfo(platform)
    for words, text in {**outputs, **platform.outputs}.items():
        tree[f"usr/local/bin/{words.partition(' ')[0]}"] = STAND_IN
        tree[f"{TWIN}/outputs/{words}"] = text
    return tree


def devinfo(platform: Platform) -> str:
    """`ibv_devinfo`: each device with its ports."""
    text = ""
    for hca in platform.hcas:
        if hca.port == 1:
            text += f"hca_id:\t{hca.name}\n\ttransport:\t\t\tInfiniBand (0)\n\tfw_ver:\t\t\t\t{hca.firmware}\n"
        number, _, word = hca.state.partition(": ")
        text += f"\t\tport:\t{hca.port}\n\t\t\tstate:\t\t\tPORT_{word} ({number})\n\t\t\tmax_mtu:\t\t4096 (5)\n"
        text += f"\t\t\tactive_mtu:\t\t{hca.active_mtu} (5)\n\n"
    return text


def _environment(platform: Platform) -> Tree:
    """The job's interpreter: a virtual environment whose packages are torch and what comes with it."""
    real = os.path.realpath(PYTHON)
    site = f"lib/{Path(real).name}/site-packages"
    gpus = platform.gpus
    cuda = platform.cuda_of_torch if gpus and gpus.vendor == "nvidia" else ""
    hip = "6.4.43484" if gpus and gpus.vendor == "amd" else ""
    build = f"+cu{cuda.replace('.', '')}" if cuda else "+rocm6.4" if hip else "+cpu"
    if platform.machine == "ppc64le":  # PyTorch makes no wheels for it: it is built from source
        build = ""
    version = f"{platform.torch}{build}"
    tree: Tree = {
        f"{site}/torch/__init__.py": "",
        f"{site}/torch/version.py": f"__version__ = {version!r}\ncuda = {cuda or None!r}\nhip = {hip or None!r}\n",
        f"{site}/torch-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n\n",
        f"{site}/numpy-{platform.numpy}.dist-info/METADATA": f"Name: numpy\nVersion: {platform.numpy}\n\n",
    }
    if cuda:
        for name, number in ((f"nvidia_nccl_cu{cuda[:2]}", platform.nccl), (f"nvidia_cudnn_cu{cuda[:2]}", "9.7.1.26")):
            tree[f"{site}/{name}-{number}.dist-info/METADATA"] = f"Name: {name}\nVersion: {number}\n\n"
    elif hip:
        tree[f"{site}/torch/lib/librccl.so.1"] = ""
    return {**_interpreter(), **{f"{TWIN}/env/{name}": value for name, value in tree.items()}}


def _interpreter() -> Tree:
    """An empty virtual environment, and the hook by which the kernel's answers are those of the folder.

    Its Python is a script that leaves out -S, with which there would be no hook.
    """
    real = os.path.realpath(PYTHON)
    site = f"{TWIN}/env/lib/{Path(real).name}/site-packages"
    return {
        f"{TWIN}/env/bin/python": WITH_SITE.format(python=real),
        f"{TWIN}/env/pyvenv.cfg": f"home = {Path(real).parent}\ninclude-system-site-packages = false\n",
        # Debian's Python has a sitecustomize of its own, which would win.
        f"{site}/twin_answers.py": Path(__file__).with_name("answers.py").read_text(),
        f"{site}/twin.pth": "import twin_answers\n",
    }


def _kernel(platform: Platform, n: int, hostname: str) -> dict[str, Any]:
    infinity = -1
    return {
        "hostname": hostname,
        "release": platform.kernel,
        "machine": platform.machine,
        "cpus": platform.cpus,
        "memory_bytes": platform.memory_gib << 30,
        "shared_memory_bytes": platform.shared_memory_gib << 30,
        "user_id": platform.user_id,
        "limits": {"memlock": platform.memlock, "nofile": platform.nofile, "nproc": platform.nproc or infinity},
        "interfaces": [
            {
                "name": nic.name,
                "mtu": nic.mtu,
                "speed_mbps": nic.speed_mbps,
                "addresses": [address.format(n=n) for address in nic.addresses],
                "is_up": nic.is_up,
            }
            for nic in platform.nics
        ],
        "gateway": platform.gateway,
        "environment": {name: text.replace("{n}", str(n)) for name, text in platform.environment.items()},
    }
