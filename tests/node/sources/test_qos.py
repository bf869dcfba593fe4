"""Are lossless priorities, trust, ECN and traffic class read as tools and drivers write them?"""

from __future__ import annotations

import pytest

from preflight.node.sources import qos

MLNX_QOS = """\
DCBX mode: OS controlled
Priority trust state: dscp
dscp2prio mapping:
	prio:0 dscp:07,06,05,04,03,02,01,00,
	prio:3 dscp:31,30,29,28,27,26,25,24,
default priority:
Receive buffer size (bytes): 20016,156096,0,0,0,0,0,0,max_buffer_size=1027728
Cable len: 7
PFC configuration:
	priority    0   1   2   3   4   5   6   7
	enabled     0   0   0   1   0   0   0   0
	buffer      0   0   0   1   0   0   0   0
tc: 0 ratelimit: unlimited, tsa: vendor
	priority:  1
"""
DCB = """\
pfc-cap 8 macsec-bypass on delay 0
prio-pfc 0:off 1:off 2:off 3:on 4:on 5:off 6:off 7:off
requests 0:0 1:0 2:0 3:0 4:0 5:0 6:0 7:0
"""


def test_what_mlnx_qos_prints():
    """One lossless priority; the adapter trusts the mark in the IP header."""
    assert qos.mlnx_qos(MLNX_QOS) == {"pfc_priorities": "3", "trust": "dscp"}
    assert qos.mlnx_qos(MLNX_QOS.replace("   1   0   0   0   0", "   0   0   0   0   0"))["pfc_priorities"] == "none"


def test_what_dcb_prints():
    """The priorities that are on."""
    assert qos.dcb(DCB) == {"pfc_priorities": "3, 4"}


@pytest.mark.parametrize("text", ["", "Attribute read: Operation not supported", MLNX_QOS[:220], "prio-pfc"])
def test_what_is_cut_short_or_something_else_says_nothing(text):
    """No priority is none, and none is not unknown."""
    assert "pfc_priorities" not in {**qos.mlnx_qos(text), **qos.dcb(text)}


def test_the_tool_of_the_driver_comes_first():
    """It tells more; without either nothing is started."""
    assert qos.command({"mlnx_qos": "/a", "dcb": "/b"}, "eth2") == ["/a", "-i", "eth2"]
    assert qos.command({"mlnx_qos": "", "dcb": "/b"}, "eth2") == ["/b", "pfc", "show", "dev", "eth2"]
    assert qos.command({"mlnx_qos": "", "dcb": ""}, "eth2") == []


def test_what_sysfs_tells_of_a_port(tmp_path):
    """ECN counts where the adapter marks and heeds; a folder that is not there is absent."""
    files = {f"class/net/eth2/ecn/{end}/enable/{number}": "1" for end in ("roce_np", "roce_rp") for number in (3, 4)}
    files |= {
        "class/net/eth2/ecn/roce_rp/enable/4": "0",
        "class/infiniband/mlx5_0/tc/1/traffic_class": "Global tclass=106\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    told = qos.described(DCB, sysfs=str(tmp_path), netdev="eth2", device="mlx5_0", number=1)
    assert (told["pfc_priorities"], told["ecn_priorities"], told["traffic_class"]) == ("3, 4", "3", "106")
    assert told["trust"]["kind"] == "absent"
    bare = qos.described({"missing": "it hangs"}, sysfs=str(tmp_path), netdev="eth9", device="mlx5_9", number=1)
    assert {value["kind"] for value in bare.values()} == {"absent"}
