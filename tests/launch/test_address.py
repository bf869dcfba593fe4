"""Is a text an address that rank 0 can have, and does a launch log in to the other nodes?"""

from __future__ import annotations

import pytest

from preflight.launch.address import address_of, is_loopback, wrong_with
from preflight.launch.launchers import logs_in
from preflight.launch.read import read_texts
from tests.launch.samples import DEEPSPEED, HOSTFILE, config, torchrun


@pytest.mark.parametrize("address", ["10.0.0.1", "node-1", "node1.lan", "fd00::1", "[fd00::1]", "worker_0", "gpu01."])
def test_addresses_that_a_node_could_have(address):
    """IP addresses and host names are left alone."""
    assert wrong_with(address) == ""


@pytest.mark.parametrize(
    "address",
    ["1234", "10.233.xx.xx", "<ip>", "主节点IP", "root@10.0.0.1", "10.0.0.1:29500", "10.0.0.256", "MASTER_IP",
     "your-master-node", "http://10.0.0.1", "x.x.x.x", "master_ip", "", "a b"],
)  # fmt: skip
def test_addresses_that_no_node_has(address):
    """Placeholders, URLs, ports and typos."""
    assert wrong_with(address) != ""


def test_loopback_in_all_its_spellings():
    """localhost, 127.x, ::1, 0.0.0.0 and IPv4-mapped loopback."""
    assert all(map(is_loopback, ["localhost", "127.0.1.1", "::1", "0.0.0.0", "::", "[::1]", "::ffff:127.0.0.1"]))
    assert not any(map(is_loopback, ["10.0.0.1", "node1", "fd00::1"]))


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("", "is empty"),
        ("root@10.0.0.1", "has a user name"),
        ("http://10.0.0.1", "is a URL"),
        ("n1:29500", "has a port"),
        ("<ip>", "is a placeholder"),
        ("master.example.com", "is a placeholder"),
        ("1234", "is a number"),
        ("10.0.0.256", "is not an IP address"),
        ("fd00::g", "is not an IP address"),
        ("a b", "is not a host name"),
        ("-n1", "is not a host name"),
        ("n" * 254, "is not a host name"),
    ],
)
def test_what_is_wrong_with_an_address_is_said_in_words(address, words):
    """So that the reader of a finding knows what to write instead."""
    assert wrong_with(address).startswith(words)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("n1.lan", "n1.lan"),
        ("10.0.0.1", "10.0.0.1"),
        ("<ip>", ""),
        ("localhost", ""),
        ("$HEAD", ""),
        ("${H:-n1}", "n1"),
    ],
)
def test_the_address_of_a_launch_is_one_that_leads_to_a_node(address, expected):
    """A placeholder, loopback and what only a run would tell are none."""
    (plan,) = read_texts({"n.sh": torchrun(address=f"'{address}'" if "<" in address else address)}).plans
    assert address_of(plan) == expected


@pytest.mark.parametrize(
    ("texts", "logs"),
    [
        ({"run.sh": DEEPSPEED, "hostfile": HOSTFILE}, True),
        ({"run.sh": "deepspeed --num_gpus 8 train.py\n"}, False),
        ({"run.sh": "pdsh -w n[1-2] torchrun --nnodes 2 t.py\n"}, True),
        ({"run.sh": "accelerate launch --deepspeed_hostfile hostfile t.py\n", "hostfile": HOSTFILE}, True),
        ({"n.yaml": config()}, False),
        ({"n.sh": torchrun()}, False),
    ],
)
def test_a_launch_with_a_hostfile_logs_in_to_the_other_nodes(texts, logs):
    """Each node needs a login then; a launch that is started by hand on each node needs none."""
    assert any(map(logs_in, read_texts(texts).plans)) is logs
