"""Is every value of a command one word of the shell, and is the value of the others really theirs?"""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.errors import FactMissing
from preflight.judge.commands.words import as_root, into_file, of_the_others
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
    """Nothing of them is read by the shell, nor by printf."""
    file = tmp_path / "it's a file"
    subprocess.run(["sh", "-c", into_file(NODE, str(file), line, line)], check=True)
    assert file.read_text() == f"{line}\n{line}\n"


def test_the_value_of_the_others_is_that_of_most_of_them():
    """Where they do not agree, or cannot tell, there is none."""
    cluster = RUN.broken_interface("node1", mtu=1400).broken_interface("node3", mtu=1500).cluster

    def mtu(node):
        return node.network.training_interface.mtu

    assert of_the_others(cluster["node3"], cluster, mtu, "mtu") == 9000
    split = RUN.broken_interface("node1", mtu=1400).broken_interface("node2", mtu=1400).cluster
    with pytest.raises(FactMissing, match="do not agree on one"):
        of_the_others(split["node3"], split, mtu, "mtu")
