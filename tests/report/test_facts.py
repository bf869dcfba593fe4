"""Does the table of facts tell every fact in a word, and why where there is none?"""

from __future__ import annotations

import pytest

from preflight.report.facts import ROWS, compared
from preflight.report.facts import row_values as every_row
from preflight.testing import healthy, roce
from preflight.testing.hardware import ABSENT
from tests.checks.samples import with_second_address


def told(run, node="node1"):
    return {title: read(run.cluster[node]) for title, read in ROWS.items()}


def test_a_node_with_gpus_and_rdma_is_told_in_a_word_each():
    """What people compare first: names, links, versions, devices, limits."""
    run = roce()
    run = run.broken("node1", "identity", fqdn="node1.example.org", memory_bytes=512 << 30)
    rows = told(run)
    assert rows == {
        **rows,
        "hostname": "node1",
        "FQDN": "node1.example.org",
        "own name resolves to": "10.0.0.1",
        "CPUs": "64",
        "memory": "512.0 GiB",
        "training interface": "eth0 10.0.0.1/24, fe80::1%eth0/64",
        "its MTU": "9000",
        "its speed": "25000 Mb/s",
        "default gateway": "none",
        "ephemeral ports": "32768-60999",
        "python": "3.11.2",
        "torch": "2.13.0",
        "CUDA of torch": "13.0",
        "NCCL": "2.28.9",
        "GPUs": "8 x NVIDIA H200",
        "driver": "580.95",
        "memlock": "unlimited",
        "open files": "1048576",
        "/dev/shm": "64512 MiB free",
        "clock offset": "+10.0 ms",
    }
    assert rows["RDMA"].startswith("mlx5_0 ACTIVE, mlx5_1 ACTIVE")
    assert "MASTER_ADDR=node1" in rows["variables"]


def test_a_node_without_devices_says_none_or_why():
    """No GPU is an answer; a driver that is not there has a reason."""
    rows = told(healthy())
    assert rows["GPUs"] == "none"
    assert rows["RDMA"] == "none"
    assert rows["variables"] == "none"
    assert rows["driver"] == "(not there)"
    assert rows["CUDA of torch"] == "(this torch is a CPU build)"


def test_every_row_has_words_when_everything_is_missing():
    """A node that told nothing still gives a whole column, with the reason in brackets."""
    run = healthy()
    for name in run.subjects["node1"].keys() - {"network"}:
        run = run.without("node1", name, "the tool broke")
    for title, value in told(run).items():
        assert value, title
        if "interface" not in title and title not in {"its MTU", "its speed", "default gateway", "ephemeral ports"}:
            assert value == "(the tool broke)", title


def test_a_link_that_tells_no_rate_says_so():
    """veth's made-up figure is not shown as a speed."""
    run = healthy().broken_interface("node1", is_physical=False, speed_mbps=10000)
    assert told(run)["its speed"] == "(not a hardware interface)"
    run = healthy().broken_interface("node1", speed_mbps=0)
    assert told(run)["its speed"] == "(the driver reports no speed)"


def test_mixed_gpus_are_all_named():
    """One odd card is what a person looks for."""
    run = roce()
    devices = run.subjects["node1"]["gpu"].devices
    import msgspec

    odd = (msgspec.structs.replace(devices[0], name="NVIDIA A100"), *devices[1:])
    assert told(run.broken("node1", "gpu", devices=odd))["GPUs"] == "8 x NVIDIA A100, NVIDIA H200"
    assert told(run.broken("node1", "gpu", devices=ABSENT))["GPUs"] == "(not there)"


@pytest.mark.parametrize("title", ROWS)
def test_rows_of_equal_nodes_are_equal(title):
    """A mark for a difference means one: only what is the node's own may differ between healthy nodes."""
    own = {"hostname", "FQDN", "own name resolves to", "training interface", "clock offset"}
    run = roce()
    assert (told(run, "node1")[title] != told(run, "node2")[title]) == (title in own)


def test_the_chosen_interface_is_the_one_that_is_told():
    """Not the first, but the one that the job's variables choose."""
    run = with_second_address(healthy(), "node1", "192.168.7.1").with_variables(GLOO_SOCKET_IFNAME="mgmt0")
    assert told(run)["training interface"] == "mgmt0 192.168.7.1/24"


def test_rows_are_compared_over_nodes_and_those_that_differ_come_first():
    """The most frequent value first; what each node has of its own by nature is no difference."""
    run = healthy().broken_interface("node3", mtu=1500)
    rows = compared({node.name: every_row(node) for node in run.cluster})
    assert [(row.title, row.values) for row in rows if row.differs] == [
        ("its MTU", (("9000", ("node1", "node2")), ("1500", ("node3",))))
    ]
    assert rows[0].title == "its MTU"
    assert {row.title for row in rows} == set(ROWS)
    assert next(row for row in rows if row.title == "hostname").is_own


def test_how_much_memory_may_be_locked_has_its_unit():
    """As `ulimit -l` counts it."""
    assert told(healthy().broken("node1", "limits", memlock_soft_bytes=8 << 20))["memlock"] == "8192 KiB"
