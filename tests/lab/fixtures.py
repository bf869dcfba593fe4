"""How does a test get a lab, and what is said where there can be none?"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest

from .lab import Lab
from .spaces import ENVIRONMENT
from .sshd import SSHD

TOOLS = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "ip": "iproute2",
    "tc": "iproute2",
    "nft": "nftables",
    "iperf3": "iperf3",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    SSHD: "openssh-server",
}
TRIAL = """
set -e
mount -t proc proc /proc
mount -t sysfs sysfs /sys
ip link add trial type bridge
ip link add trial1 type veth peer name trial2
tc qdisc add dev trial1 root tbf rate 1gbit burst 250000 latency 50ms
nft add table inet trial
"""


def why_not() -> str:
    """Why no lab can be made here; empty where one can."""
    if os.geteuid() != 0:
        return "the lab needs root"
    missing = sorted({package for tool, package in TOOLS.items() if not shutil.which(tool, path=ENVIRONMENT["PATH"])})
    if missing:
        return f"the lab needs Debian's {', '.join(missing)}"
    trial = ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "sh", "-c", TRIAL]
    done = subprocess.run(trial, capture_output=True, text=True, timeout=30, env=ENVIRONMENT, check=False)
    return f"the lab needs namespaces, veth, tbf and nft: {done.stderr.strip()}" if done.returncode else ""


@pytest.fixture(scope="session")
def lab_is_possible() -> None:
    """Skip where no lab can be made; fail there when PREFLIGHT_LAB=required."""
    needs_lab(why_not())


def needs_lab(lacking: str) -> None:
    """Skip where something is `lacking` here, or fail where a lab with everything in it was promised."""
    if lacking and os.environ.get("PREFLIGHT_LAB") == "required":
        pytest.fail(f"PREFLIGHT_LAB=required, but {lacking}", pytrace=False)
    if lacking:
        pytest.skip(lacking)


@pytest.fixture(scope="module")
def lab3(lab_is_possible: None) -> Iterator[Lab]:
    """Three hosts on 1 Gbit links, for one module: plant faults in `with`, so that the next test finds none."""
    with Lab.create(3) as lab:
        yield lab


@pytest.fixture
def make_lab(lab_is_possible: None) -> Iterator[Callable[..., Lab]]:
    """A lab for one test: `make_lab(hosts=2, rate="200mbit")`."""
    labs: list[Lab] = []

    def make(hosts: int = 3, rate: str | None = "1gbit") -> Lab:
        labs.append(Lab.create(hosts, rate=rate))
        return labs[-1]

    yield make
    for lab in labs:
        lab.destroy()
