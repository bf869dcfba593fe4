"""Is what a node lacks mounted, copied and fetched from where the others have it?"""

from __future__ import annotations

import pytest

from preflight.testing import roce
from tests.checks.samples import files_have
from tests.judge.commands.test_every_check import mounted
from tests.judge.commands.typed import as_root, typed


def test_the_file_system_of_the_others_is_mounted():
    """Now and at every boot."""
    run = files_have(as_root(roce()), "node3", "shared", trouble="this node sees another folder", writer="node1")
    run = mounted(run, "node1", "node2", "node4")
    name = "files.shared_paths_are_shared"
    assert typed(run, name) == {"node3": "mkdir -p /data && mount -t nfs4 filer:/export/data /data"}
    assert "filer:/export/data /data nfs4 _netdev 0 0" in typed(run, name, lasting=True)["node3"]
    assert typed(mounted(run, *run.names), name) == {}


@pytest.mark.parametrize(
    ("field", "options"), [({"may_run": False}, "remount,exec"), ({"is_writable": False}, "remount,rw")]
)
def test_a_place_is_mounted_anew_as_a_job_needs_it(field, options):
    """The mount that holds it, and not the folder."""
    run = files_have(as_root(roce()), "node2", "places", **field)
    found = typed(run, "files.places_can_be_written_to")
    assert found == {"node2": f'mount -o {options} "$(findmnt -no TARGET -T /root)"'}


def test_code_comes_from_a_node_that_has_what_most_have():
    """By the address that its peers use."""
    run = files_have(as_root(roce()), "node1", "same", digest="cd" * 32)
    assert typed(run, "files.same_paths_hold_the_same") == {"node1": "rsync -acs 10.0.0.2:/code /"}


def test_data_is_pulled_where_pointers_are():
    """In the folder that was named."""
    run = files_have(as_root(roce()), "node1", "same", pointers=("a b.safetensors",))
    assert typed(run, "files.no_pointer_stands_for_data") == {"node1": "git -C /code lfs pull"}
