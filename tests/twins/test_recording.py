"""Does a recorded node say the same again, without what tells it from all others?"""

import json

import pytest

from preflight.run import recording
from tests.twins import node, nvidia, sources
from tests.twins.platforms import BY_NAME
from tests.twins.twin import Twin, recorded

KEY = "00" * 32


def same_form(document):
    """A node's facts without its own ids: those of GPUs and cards, link-local GIDs and addresses, those of hardware."""
    facts, missing = json.loads(sources.facts_of(document))
    facts["identity"].pop("boot_id")
    facts["software"].pop("executable")
    for gpu in facts["gpu"]["devices"]:
        gpu.pop("uuid")
    if facts["ending"]["nvlink_errors"]:
        facts["ending"]["nvlink_errors"] = [row[1:] for row in facts["ending"]["nvlink_errors"]]
    cards = [device["card"] for device in facts["rdma"]["devices"]]
    for device in facts["rdma"]["devices"]:
        device["card"] = cards.index(device["card"])  # which functions are of one card, not its number
        for row in device["ports"][0]["gids"]:
            row["gid"] = row["gid"] if not row["gid"].startswith("fe80") else "fe80"
    for interface in facts["network"]["interfaces"]:
        interface["mac"] = len(interface["mac"])
        interface["addresses"] = [a for a in interface["addresses"] if not a["address"].startswith("fe80")]
    return facts, missing


def differing(one, other, place="facts"):
    """Where two answers differ."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [found for key in one for found in differing(one[key], other[key], f"{place}.{key}")]
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        return [
            found for i, pair in enumerate(zip(one, other, strict=True)) for found in differing(*pair, f"{place}.{i}")
        ]
    return [] if one == other else [(place, one, other)]


@pytest.mark.parametrize("name", ["hgx-h200-roce", "mi300x", "ubuntu"])
def test_a_recorded_node_says_the_same_again(name, tmp_path, lab_is_possible):
    """From the node's files to its recording, from there to a twin: the same facts, other serial numbers and ids."""
    (folder,) = node.make(BY_NAME[name], 1, tmp_path / "made")
    told = Twin([folder]).documents()["node1"]
    entries = recorded(folder, KEY)
    recording.write(entries, tmp_path / "recording")
    again = Twin([node.load(tmp_path / "recording", tmp_path / "again")]).documents()["node1"]

    assert differing(same_form(again), same_form(told)) == []
    shown = "".join(entry.text or "" for entry in entries)
    own = [nvidia.uuid(1, index) for index in range(8)] + ["165000000100", "0x0001000000000001"]
    assert not [word for word in own if word in shown]
