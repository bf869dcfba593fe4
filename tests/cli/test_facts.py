"""Are the facts of all nodes shown side by side, and is a node that did not answer told?"""

from __future__ import annotations

import json
import os
import sys

import pytest

from preflight.cli import facts, main
from preflight.facts.cluster import Cluster
from preflight.testing import healthy


def test_a_table_of_facts_marks_where_nodes_differ():
    """A star at the row, a column a node; what a node says cannot reach the terminal raw."""
    run = healthy(2).broken_interface("node2", mtu=1500).broken("node1", "identity", kernel="6.1\x1b[31m")
    table = facts._facts_table(run.cluster)
    rows = {line.split("  ")[0]: line for line in table.splitlines()}
    assert "its MTU *" in rows
    assert "CPUs" in rows
    assert "\x1b" not in table


def test_a_table_of_many_nodes_shows_each_value_once():
    """With the nodes that have it, folded; what differs stands first, what no node reports below, by its reason."""
    table = facts._facts_table(healthy(9).broken_interface("node2", mtu=1500).cluster)
    lines = table.splitlines()
    assert [line.split() for line in lines[2:4]] == [["its", "MTU", "*", "9000", "node[1,3-9]"], ["1500", "node2"]]
    assert sum("hostname" in line for line in lines) == 1
    nowhere = lines[lines.index("not reported by any node:") + 1 :]
    assert any(line.endswith("NVLinks of a GPU (no GPU has any)") for line in nowhere)
    assert len({line.partition(" (")[2] for line in nowhere}) == len(nowhere)


def test_a_table_of_no_node_is_empty():
    """Where no node answered there is nothing to tell."""
    assert "node1" not in facts._facts_table(Cluster(()))


SSH = """#!/bin/sh
for last; do host=$word; word=$last; done
[ "$host" = node1 ] || { echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255; }
exec sh -c "$last"
"""


def test_a_node_that_was_not_reached_is_told_and_the_others_are_shown(tmp_path, monkeypatch, capsys):
    """Exit code 3: something was asked and not measured."""
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert main.run(["facts", "--hosts=node[1-2]", f"--python={sys.executable}", "--json"]) == 3
    seen = capsys.readouterr()
    assert seen.err.startswith("node2: not reached: ")
    assert "No route to host" in seen.err
    found = json.loads(seen.out)
    assert list(found) == ["node1"]
    assert found["node1"]["subjects"]["identity"]["cpu_count"] > 0


def test_the_facts_of_this_machine_are_a_table(capsys, tmp_path):
    """Or JSON in a file, and then nothing on standard output."""
    assert main.run(["facts"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["fact", "(*", "differs)", "local"]
    assert not any(line.split("  ")[0].endswith("*") for line in lines)
    assert main.run(["facts", "--json", str(tmp_path / "facts.json")]) == 0
    assert capsys.readouterr().out == ""
    assert json.loads((tmp_path / "facts.json").read_text())["local"]["node"] == "local"


@pytest.mark.parametrize("words", [["--hosts=a;b"], ["--hosts="], ["--env=X"], ["--backend=mpi"], ["--deadline=-1"]])
def test_a_word_that_cannot_be_is_one_line_and_4(words, capsys):
    """Before anybody is contacted."""
    assert main.run(["facts", *words]) == 4
    seen = capsys.readouterr()
    assert (len(seen.err.splitlines()), seen.out) == (1, "")


def test_the_raw_material_of_facts_is_recorded(tmp_path, capsys):
    """A folder for the node, and no second recording over it."""
    words = ["facts", "--hosts=local", f"--record={tmp_path / 'recorded'}"]
    assert main.run(words) == 0
    assert (tmp_path / "recorded/local/proc/meminfo").read_text().startswith("MemTotal")
    assert "1 node recorded in" in capsys.readouterr().err
    assert main.run(words) == 4


@pytest.mark.parametrize("folder", ["a_file", "/proc/nowhere"])
def test_a_folder_that_no_recording_can_go_to_is_refused_with_what_to_do(tmp_path, monkeypatch, capsys, folder):
    """Before a node is asked: the host that nobody can reach is not tried."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_file").touch()
    assert main.run(["facts", "--hosts=node.invalid", f"--record={folder}"]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert f"--record: {folder} cannot be written: " in line
    assert line.endswith("; name another with --record=DIR")


def test_what_is_not_known_stands_in_lines_of_the_terminal():
    """A list of forty facts of one reason is no endless line."""
    text = facts._within(
        facts._facts_table(healthy(2).without("node1", "gpu", "x").without("node2", "gpu", "x").cluster), 60
    )
    below = text.partition("\n\n")[2].splitlines()
    assert below[0] == "not reported by any node:"
    assert max(map(len, below)) <= 60
    assert any(line.startswith("    ") for line in below)
