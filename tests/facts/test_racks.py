"""Are racks and switches read from whatever a site has, and found under each node's name?"""

from __future__ import annotations

import contextlib
import json
import time

import pytest

from preflight.facts.racks import parse_labels, parse_topology, racks_of, read_topology
from preflight.reach.host import Host
from preflight.reach.hosts import parse_hosts
from preflight.said.errors import UsageError

SHOWN = """SwitchName=s0 Level=0 LinkSpeed=1 Nodes=tux[0-1]
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=tux[2-3],gpu-a[1-2]b[3-4]
SwitchName=top Level=1 LinkSpeed=1 Nodes=tux[0-3] Switches=s[0-1]
"""
CONF = """# topology.conf
SwitchName=s0 \\
   Nodes=tux[0-1]
switchname=s1 nodes=tux2,tux3
SwitchName=top Switches=s[0-1]
"""
BLOCKS = """BlockName=b1 BlockIndex=0 Nodes=tux[0-1] BlockSize=2
AggregatedBlock=b[1-2] BlockIndex=2 Nodes=tux[0-3] BlockSize=4
BlockName=b2 BlockIndex=1 Nodes=tux[2-3] BlockSize=2
"""
YAML = """---
- topology: tree
  cluster_default: true
  tree:
    switches:
      - switch: top
        children: s[0-1]
      - switch: s0
        nodes: tux[0-1]
      - {switch: s1, nodes: "tux[2-3]"}
"""
LINES = "r0: tux[0-1]   # left\n\nr1 = tux2, tux3\n"


@pytest.mark.parametrize(
    ("text", "racks"),
    [(SHOWN, "switch s0"), (CONF, "switch s0"), (BLOCKS, "block b1"), (YAML, "switch s0"), (LINES, "rack r0")],
    ids=["scontrol", "topology.conf", "blocks", "topology.yaml", "lines"],
)
def test_each_form_names_the_switch_or_rack_next_to_a_node(text, racks):
    """Switches of switches are none."""
    found = parse_topology(text)
    assert (found["tux0"], found["tux1"]) == (racks, racks)
    assert found["tux2"] == found["tux3"] != racks
    assert not any("top" in rack for rack in found.values())


def test_names_with_several_ranges_are_expanded():
    """As Slurm writes them."""
    assert {"gpu-a1b3", "gpu-a2b4"} <= parse_topology(SHOWN).keys()


@pytest.mark.parametrize("text", ["just words of a letter", "r1:\n", "r1: node[1-\n", "- switch: [", ""])
def test_a_file_without_racks_is_refused(tmp_path, text):
    """With its name."""
    path = tmp_path / "topology"
    path.write_text(text)
    with pytest.raises(UsageError, match="topology"):
        read_topology(str(path))


def test_the_label_that_all_nodes_have_tells():
    """topograph's leaf before NVLink's domain; one that some lack would mix racks of two kinds."""
    leaf, domain = "network.topology.nvidia.com/leaf", "network.topology.nvidia.com/accelerator"
    rows = {"n1": {leaf: "s1", domain: "nvl1"}, "n2": {leaf: "s2", domain: "nvl1"}, "n3": {domain: "nvl2"}}
    text = "".join(f"{name}\t{json.dumps(labels)}\n" for name, labels in rows.items()) + "x\tno"
    assert parse_labels(text, ["n1", "n2"]) == {"n1": "switch s1", "n2": "switch s2"}
    assert parse_labels(text, ["n1", "n3"]) == {"n1": "NVLink domain nvl1", "n3": "NVLink domain nvl2"}
    assert parse_labels(text, ["other"]) == parse_labels("", ["n1"]) == {}


def test_a_host_is_found_by_the_node_of_its_pod_and_without_its_domain():
    """A name that the file has itself comes first."""
    pod = Host("llama-0", "k8s:train/pod/llama-0:c@n7", transport="k8s")
    hosts = (pod, *parse_hosts("tux1.example.org,u@tux2:2222,other"))
    topology = {"n7": "switch s1", "tux1": "rack r1", "tux2": "rack r2"}
    assert racks_of(hosts, topology) == {"llama-0": "switch s1", "tux1.example.org": "rack r1", "tux2": "rack r2"}


LAUGHS = "a: &a [x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
)


@pytest.mark.parametrize(
    "text",
    [" " * 20_000, "\r" * 20_000, " -" * 10_000, "\n " * 10_000, "topology: &x [*x]\n", f"topology: 1\n{LAUGHS}"],
    ids=["blanks", "returns", "dashes", "lines", "a list that holds itself", "lists of lists of lists"],
)
def test_a_file_of_any_shape_is_read_or_refused_in_time(text):
    """What it costs grows with the text alone."""
    begun = time.process_time()
    with contextlib.suppress(UsageError):
        assert parse_topology(text) == {}
    assert time.process_time() - begun < 0.5
