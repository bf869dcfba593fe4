"""Is every value of a command one word of the shell, and is the value of the others really theirs?"""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.judge.commands.words import (
    Case,
    as_file,
    as_root,
    exported,
    into_file,
    into_kernel,
    of_the_others,
    unset,
)
from preflight.said.errors import FactMissing
from preflight.testing import healthy
from tests.judge.commands.typed import as_root as run_by_root

RUN = run_by_root(healthy(5))
NODE = RUN.cluster["node3"]
texts = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=20)


@given(st.lists(texts, min_size=1, max_size=4))
def test_a_command_is_the_words_it_was_made_of(words):
    """Whatever stands in them."""
    assert shlex.split(as_root(NODE, *words)) == words


@pytest.mark.parametrize("line", ["a b", "100 % \\n $(id) `id` 'x' \"y\"", "* soft nofile 65536"])
def test_lines_reach_the_file_as_they_are(tmp_path, line):
    """Nothing of them is read by the shell, nor by printf; a line that is there is not added again."""
    file = tmp_path / "it's a file"
    for _ in range(2):
        subprocess.run(["sh", "-c", into_file(NODE, str(file), line, f"{line} more")], check=True)
    assert file.read_text() == f"{line}\n{line} more\n"


def test_the_value_of_the_others_is_that_of_most_of_them():
    """Where they do not agree, or cannot tell, there is none."""
    cluster = RUN.broken_interface("node1", mtu=1400).broken_interface("node3", mtu=1500).cluster

    def mtu(node):
        return node.network.training_interface.mtu

    assert of_the_others(Case(cluster["node3"], cluster, ""), mtu, "mtu") == 9000
    split = run_by_root(healthy(4)).broken_interface("node1", mtu=1400).broken_interface("node2", mtu=1400).cluster
    for node in split:  # in halves, each would be given the value of the other half, and the two would swap
        with pytest.raises(FactMissing, match="do not agree on one"):
            of_the_others(Case(node, split, ""), mtu, "mtu")
    silent = run_by_root(healthy(3)).broken_interface("node1", mtu=1400)
    silent = silent.broken("node2", "network", interfaces=()).cluster
    with pytest.raises(FactMissing, match="do not agree on one"):
        of_the_others(Case(silent["node3"], silent, ""), mtu, "mtu")


@given(texts, texts)
def test_variables_are_set_to_what_they_hold(first, second):
    """Two in one line, each value one word."""
    assert shlex.split(exported(A=first, B=second).now) == ["export", f"A={first}", f"B={second}"]
    assert exported(A=first).is_for_job


def test_nothing_to_unset_is_no_command():
    """`unset` alone does nothing."""
    assert unset("A", "B").now == "unset A B"
    with pytest.raises(FactMissing, match="none to unset"):
        unset()


def test_a_file_of_ours_is_written_anew_and_one_of_the_kernel_by_its_pattern(tmp_path):
    """The second time it holds the same; a pattern names several files."""
    file = tmp_path / "90-preflight.conf"
    for _ in range(2):
        subprocess.run(["sh", "-c", as_file(NODE, str(file), "vm.nr_hugepages = 0")], check=True)
    assert file.read_text() == "vm.nr_hugepages = 0\n"
    for name in ("cpu0", "cpu1"):
        (tmp_path / name).touch()
    subprocess.run(["sh", "-c", into_kernel(NODE, "it's", f"{tmp_path}/cpu*")], check=True)
    assert {(tmp_path / name).read_text() for name in ("cpu0", "cpu1")} == {"it's\n"}
