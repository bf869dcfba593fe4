"""Is a fault named that is planted in the raw material of one node of a platform, and nobody else?"""

import pytest

from preflight.judge.ledger.findings import Verdict
from tests.twins import faults_gpu, node, planted
from tests.twins.folder import Folder
from tests.twins.platforms import BY_NAME, PLATFORMS
from tests.twins.twin import Twin, notable

# A sample of each kind of source; `python -m tests.bench.twins` plants every fault on every platform that it fits.
SAMPLE = {
    "dgx-h100": (
        *("GPU off the bus", "driver not reloaded", "remapping pending", "Xid 79", "NVLink down", "ACS", "rail down"),
        *("no subnet manager", "device file missing", "wrong NCCL_IB_HCA", "other firmware", "flapping link"),
        *("NVLink recovers during the run", "SXid during the run", "no peer access by writing"),
    ),
    "hgx-h200-roce": ("missing GID row", "RoCE v1 row", "half rate of a rail", "small active MTU", "wrong subnet"),
    "mi355x-pollara": ("retries of Pollara", "plugin of ANP missing", "rail with another node's address"),
    "xe9680-thor2": ("bond of one member", "log: memory error", "log: hung task"),
    "container": ("row of storage first", "link-local row first"),
    "sriov-pod": (
        *("rail down", "half rate of a rail", "rail with another node's address", "rail in a foreign network"),
        *("small active MTU", "small read requests of an adapter", "wrong NCCL_IB_HCA"),
    ),
    "rtx3090-workstation": ("NVLink down", "NVLinks all down", "no answer of DHCP"),
    "wsl2": ("GPU off the bus",),
    "graviton": ("no answer of DHCP",),
    "rhel9-lacp-vlan": ("half rate of a bond", "bond of one member", "hash policy of a bond", "no answer of DHCP"),
    "slingshot-a100": (
        *("mtu", "half rate", "data interface down", "data interface without address", "data interface absent"),
        *("MTU of a data interface", "half rate of a data interface", "little locked memory beside Slingshot"),
    ),
    "lumi-g-mi250x": (
        *("interface down", "AMD: power cap", "AMD: xGMI down", "GPU missing", "data interface absent"),
        "plugin of a fabric missing",
    ),
    "rented-container": ("GPU off the bus", "wrong GLOO_SOCKET_IFNAME", "small /dev/shm"),
    "p100-vpi": ("peer memory under another name",),
    "gcp-a3-mega": (
        *("data interface down", "data interface without address", "data interface absent"),
        "MTU of a data interface",
    ),
    "25gbe": ("mtu", "127.0.1.1", "stale line in /etc/hosts", "OOM kill during the run", "few files"),
}


@pytest.mark.parametrize("name", SAMPLE)
def test_a_fault_is_named_and_nobody_else(name, tmp_path, lab_is_possible):
    """By the right check, on the right node, with words of the cause; nothing is said of nodes that are well."""
    platform = BY_NAME[name]
    twin = Twin(node.make(platform, 3, tmp_path))
    twin.healthy = twin.documents()
    faults = {fault.name: fault for fault in planted.fitting(platform)}
    outcomes = [planted.try_fault(twin, platform, faults[fault]) for fault in SAMPLE[name]]
    assert {outcome.fault: outcome.said for outcome in outcomes if not outcome.is_named} == {}
    assert {outcome.fault: outcome.others for outcome in outcomes if outcome.others} == {}


def test_a_node_alone_that_lists_one_gpu_less_than_its_bus_has_fails(tmp_path, lab_is_possible):
    """There is no other node to count by: sysfs has eight, nvidia-smi lists seven."""
    platform = BY_NAME["dgx-h100"]
    twin = Twin(node.make(platform, 1, tmp_path))
    assert notable(twin.judge(twin.documents())) == []
    faults_gpu.lost_gpu(twin["node1"], platform)
    (found,) = (one for one in twin.judge(twin.documents()) if one.check == faults_gpu.LISTED)
    assert (found.verdict, found.nodes) == (Verdict.FAIL, ("node1",))
    assert "7" in found.message
    assert "8" in found.message


def test_every_platform_has_faults_to_plant():
    """Ten at least on each, and each fault fits a platform."""
    fitting = {platform.name: planted.fitting(platform) for platform in PLATFORMS}
    assert min(map(len, fitting.values())) >= 10
    assert {fault.name for faults in fitting.values() for fault in faults} == {fault.name for fault in planted.ALL}


def test_what_a_fault_changed_is_put_back(tmp_path):
    """After `restore` every file, mode and link of a node is as it was."""
    platform = BY_NAME["hgx-h200-roce"]
    (folder,) = node.make(platform, 1, tmp_path)

    def state():
        found = sorted(folder.root.rglob("*"))
        return {
            str(p): (p.read_bytes(), p.stat().st_mode) if p.is_file() else p.is_symlink()
            for p in found
            if not p.is_dir()
        }

    before = state()
    for fault in planted.fitting(platform):
        if not is_between_nodes(fault):
            fault.plant(folder, platform)
            assert folder.is_changed, fault.name
            folder.restore()
    assert state() == before


def is_between_nodes(fault):
    """Whether it needs the names of the peers."""
    return fault.name in ("cloned name", "stale line in /etc/hosts", "127.0.1.1", "nameless")


def test_what_lies_behind_a_link_is_left_alone(tmp_path):
    """It may be this machine's own: neither a fault nor what puts it back writes there, or sets its mode."""
    own, folder = tmp_path / "null", Folder(tmp_path / "node", "node1")
    own.write_text("ours")
    own.chmod(0o666)
    file = folder.path("etc/service")
    file.parent.mkdir(parents=True)
    file.write_text("started")
    folder.remove("etc/service")
    folder.link("etc/service", str(own))
    folder.write("etc/service", "other")
    assert file.read_text() == "other"
    folder.remove("etc/service")
    folder.link("etc/service", str(own))
    folder.restore()
    assert (file.read_text(), file.is_symlink()) == ("started", False)
    assert (own.read_text(), own.stat().st_mode & 0o777) == ("ours", 0o666)
