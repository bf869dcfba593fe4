"""What of a node's raw material takes back what was measured there, and what moves without a meaning?"""

import re
import shutil

import msgspec
import pytest

from preflight.facts.decode import Document
from preflight.run.reuse.fingerprint import fields, fingerprint, leaves
from tests.twins import node
from tests.twins.platforms import BY_NAME
from tests.twins.twin import Twin

SMI = "opt/twin/outputs/nvidia-smi -q -x"
HCA = "sys/class/infiniband/mlx5_0"


def fewer_gpus(folder):
    """The last GPU is gone from what nvidia-smi prints."""
    text = folder.path(SMI).read_text()
    head, _, _ = text.rpartition("<gpu id=")
    folder.write(SMI, head + "</nvidia_smi_log>\n")


def moved(folder, name, by=1):
    """A counter of the adapter has grown."""
    path = next(folder.path(HCA).resolve().rglob(name)).relative_to(folder.root)
    folder.write(str(path), f"{int(folder.path(str(path)).read_text()) + by}\n")


def first(folder, pattern):
    """A file of the first adapter."""
    found = sorted(path for path in folder.path("sys").rglob(pattern) if "mlx5_0" in str(path))
    return str(found[0].relative_to(folder.root))


# What is changed -> how, in the node's raw material; and the facts that show it.
CHANGES = {
    "driver": (lambda f: f.sub(SMI, "<driver_version>[^<]*", "<driver_version>999.1.2"), r"gpu\.driver"),
    "CUDA of the driver": (lambda f: f.sub(SMI, "<cuda_version>[^<]*", "<cuda_version>14.9"), r"gpu\.cuda_driver"),
    "another GPU": (lambda f: f.sub(SMI, "<uuid>GPU-....", "<uuid>GPU-ffff"), r"gpu\.devices.*uuid"),
    "ECC": (lambda f: f.sub(SMI, "<dram_uncorrectable>0", "<dram_uncorrectable>3", count=0), r"uncorrected_errors"),
    "remapped row": (lambda f: f.sub(SMI, "<remapped_row_pending>No", "<remapped_row_pending>Yes"), r"is_remapping"),
    "VBIOS": (lambda f: f.sub(SMI, "<vbios_version>[^<]*", "<vbios_version>96.00.00.00.FF"), r"vbios"),
    "Xid": (lambda f: f.log("NVRM: Xid (PCI:0000:1b:00): 94, pid=1, Contained error"), r"kernel\.log"),
    "link flap": (lambda f: moved(f, "link_downed"), r"counters\.link_downed"),
    "symbol errors": (lambda f: moved(f, "symbol_error"), r"counters\.symbol_error"),
    "link rate": (lambda f: f.write(first(f, "rate"), "100 Gb/sec (2X HDR)\n"), r"rate_gbps"),
    "GID row": (lambda f: f.write(first(f, "gids/3"), "0000:0000:0000:0000:0000:ffff:0a63:0909\n"), r"gids\.3\.gid"),
    "port down": (lambda f: f.write(first(f, "state"), "1: DOWN\n"), r"ports\.1\.state"),
    "firmware": (lambda f: f.write(first(f, "fw_ver"), "28.99.1000\n"), r"firmware"),
    "MTU": (
        lambda f: f.kernel(lambda a: a["interfaces"][0].update(mtu=1400)),
        r"network\.interfaces\.\w+(\.200)?\.mtu",
    ),
    "boot id": (lambda f: f.write("proc/sys/kernel/random/boot_id", "1" * 36 + "\n"), r"identity\.boot_id"),
    "boot options": (lambda f: f.sub("proc/cmdline", r"\n?$", " mitigations=off\n", count=1), r"kernel\.boot_options"),
    "swap": (lambda f: f.sub("proc/meminfo", r"SwapTotal: +\d+", "SwapTotal:  4194304"), r"kernel\.swap_total"),
    "a line in /etc/hosts": (
        lambda f: f.write("etc/hosts", "127.0.0.1 localhost\n10.9.9.9 node1\n"),
        r"identity\.hostname_address",
    ),
    "NCCL's file": (lambda f: f.write("etc/nccl.conf", "NCCL_ALGO=Tree\n"), r"variables\.NCCL_ALGO"),
    "a package": (
        lambda f: f.write(f"{site(f)}/zzz-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: zzz\nVersion: 1.0\n"),
        r"software\.packages\.zzz",
    ),
}
# What moves by itself on a node that is as it was.
IDLE = {
    "memory of a GPU": lambda f: f.sub(SMI, r"<used>\d+ MiB", "<used>77 MiB"),
    "state of a GPU": lambda f: f.sub(SMI, "<performance_state>P0", "<performance_state>P8"),
    "received data": lambda f: moved(f, "port_rcv_data", by=10**6),
    "free memory": lambda f: f.sub("proc/meminfo", r"MemAvailable: +\d+", "MemAvailable:  999999"),
}


def site(folder):
    """Where the packages of the job's interpreter are."""
    return next(folder.path("opt/twin/env/lib").glob("*/site-packages")).relative_to(folder.root)


@pytest.fixture(scope="module")
def twin(tmp_path_factory, lab_is_possible):
    """A node with eight GPUs and RDMA over Ethernet, as its raw material gives it."""
    folders = node.make(BY_NAME["hgx-h200-roce"], 1, tmp_path_factory.mktemp("twin"))
    made = Twin(folders)
    made.healthy = made.documents()
    return made


def settled(document):
    """The document without what is new with each network that a twin is laid over: that is no part of the node."""
    text = re.sub(
        rb'"fe80::[^"]*"', b'"fe80::1"', re.sub(rb'(boot_id":"[^:"]*):\d+', rb"\1", msgspec.json.encode(document))
    )
    return msgspec.json.decode(text, type=Document)


def facts(document):
    """Every single fact that counts."""
    return {path: value for key, held in fields(document).items() for path, value in leaves(held, key)}


def changed(twin, *plants):
    """The facts that are not as they were after these changes; those and no others change the fingerprint."""
    folder = twin["node1"]
    before = settled(twin.healthy["node1"])
    try:
        for plant in plants:
            plant(folder)
        after = settled(twin.documents(["node1"])["node1"])
    finally:
        folder.restore()
        shutil.rmtree(folder.path(f"{site(folder)}/zzz-1.0.dist-info"), ignore_errors=True)
    then, now = facts(before), facts(after)
    paths = {path for path in {*then, *now} if then.get(path) != now.get(path)}
    one, other = fingerprint(before), fingerprint(after)
    differing = {key for key in {*one, *other} if one.get(key) != other.get(key)}
    assert {next((key for key in differing if f"{path}.".startswith(f"{key}.")), None) for path in paths} == differing
    return paths


def test_changes_of_a_node_show(twin):
    """Hardware, driver, links, log, boot, variables, packages: each by itself, though many come together."""
    assert len(CHANGES) >= 20
    paths = changed(twin, *(plant for plant, _ in CHANGES.values()))
    assert [name for name, (_, shown) in CHANGES.items() if not any(re.search(shown, path) for path in paths)] == []


def test_a_gpu_that_is_gone_shows(twin):
    """The last of eight is no longer listed."""
    assert any(path.startswith("gpu.devices.7.") for path in changed(twin, fewer_gpus))


def test_what_moves_by_itself_does_not_show(twin):
    """Read twice, with a GPU that idles and traffic on the adapter, a node has one fingerprint."""
    assert changed(twin, *IDLE.values()) == set()


def document(**subjects):
    """A node that says just this."""
    return Document(1, "node1", 0, "10.0.0.1", 0, subjects, {})


def test_what_is_not_listed_counts():
    """A fact that is added tomorrow takes back what was measured, until somebody says that it moves by itself."""
    assert fingerprint(document(kernel={"new": 1})) != fingerprint(document(kernel={"new": 2}))
    assert fingerprint(document(other={"new": 1})) != fingerprint(document(other={"new": 2}))


def test_counters_are_those_that_the_jobs_left():
    """What our own traffic moved on the adapter is no change of the node."""
    port = {"number": 1, "counters": {"symbol_error": 4, "port_rcv_data": 7}}
    rdma = {"devices": [{"name": "mlx5_0", "ports": [port]}]}
    end = {"ports": {"mlx5_0:1": {"state": "ACTIVE", "counters": {"symbol_error": 9}}}}
    grown = {"devices": [{"name": "mlx5_0", "ports": [{**port, "counters": {"symbol_error": 9, "port_rcv_data": 9}}]}]}
    assert fingerprint(document(rdma=rdma, ending=end)) == fingerprint(document(rdma=grown))


def test_interfaces_of_containers_and_variables_of_an_allocation_come_and_go():
    """A pod that started and another Slurm job are no change of the node; a new cable is."""
    base = {"network": {"interfaces": [{"name": "eth0"}]}, "environment": {"variables": {}}}
    pods = {
        "network": {"interfaces": [{"name": "eth0"}, {"name": "cali12"}]},
        "environment": {"variables": {"SLURM_JOB_ID": {"value": "7"}}},
    }
    wired = {**base, "network": {"interfaces": [{"name": "eth0"}, {"name": "eth1"}]}}
    assert fingerprint(document(**base)) == fingerprint(document(**pods)) != fingerprint(document(**wired))


def test_a_change_is_said_with_its_path():
    """The interface by its name, not by its place in a list."""
    held = fields(document(network={"interfaces": [{"name": "eth0", "mtu": 9000, "addresses": []}]}))
    assert dict(leaves(held["network.interfaces"], "network.interfaces"))["network.interfaces.eth0.mtu"] == "9000"
    assert not re.search(r"Struct|Missing", msgspec.json.encode(held).decode())
