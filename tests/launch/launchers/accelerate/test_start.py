"""The files that accelerate starts a job from."""

from __future__ import annotations

import pytest
import yaml

from preflight.errors import UsageError
from preflight.launch.write import write_files
from tests.launch.nodes import cluster, cluster_of, node
from tests.launch.plans import launches, values


def test_what_is_written_is_read_as_it_was_meant():
    """A YAML and a script for each node, which name each other; the same number of processes on all."""
    texts = write_files("accelerate", cluster_of(node(0), node(1, gpus=2)), folder="/shared/out")
    assert sorted(texts) == ["node1.sh", "node1.yaml", "node2.sh", "node2.yaml"]
    found = [values(start) for start in launches({f"/shared/out/{name}": text for name, text in texts.items()})]
    assert [start["node_rank"] for start in found] == [0, 1]
    assert {(start["nodes"], start["world_size"], start["processes_per_node"]) for start in found} == {(2, 4, 2)}


def test_on_processors_the_script_says_so_and_the_file_does_not():
    """With use_cpu in the file every rank would become a world of one."""
    texts = write_files("accelerate", cluster(gpus=0), folder="/x")
    assert "export ACCELERATE_USE_CPU=true" in texts["node1.sh"]
    assert yaml.safe_load(texts["node1.yaml"])["use_cpu"] is False


@pytest.mark.parametrize("like", ["- a\n", "just words\n", "", "# nothing\n"])
def test_a_file_to_keep_settings_of_is_a_configuration(like):
    """An empty one keeps nothing and is taken for none given; any other that is no mapping is refused."""
    if like:
        with pytest.raises(UsageError, match="--like: not an accelerate configuration"):
            write_files("accelerate", cluster(), folder="/x", like=like)
    else:
        assert write_files("accelerate", cluster(), folder="/x", like=like)
