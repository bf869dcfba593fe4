"""Is the node named whose folders are full, gone, its own, or of another age?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.files import Mount, Place
from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.testing import healthy, roce
from tests.checks.samples import Broken, files_have, judge


def checkpoint(*lacking):
    """A run whose checkpoints go to the folder that all share; these nodes have none."""
    run = roce()
    for name in run.names:
        trouble = "No such file or directory" if name in lacking else ""
        place = Place("/data", "--checkpoint-dir", trouble, not trouble, 1 << 40, 1 << 20)
        run = run.broken(name, "files", places=(*run.subjects[name]["files"].places, place))
        if trouble:
            run = files_have(run, name, "shared", trouble="there is no such folder")
    return run


GONE = "the token did not appear within 10 s: this node sees another folder"
BROKEN = (
    Broken(
        "files.the_user_has_one_id_on_every_node",
        healthy().broken("node2", "identity", user_id=1001),
        ("node2",),
        "id of the job's user: 1000 on node[1,3], 1001 on node2",
    ),
    Broken(
        "files.places_can_be_written_to",
        files_have(healthy(), "node2", "places", may_run=False),
        ("node2",),
        "home (/root): no program may be run from there (noexec)",
    ),
    Broken(
        "files.network_file_systems_are_mounted_on_every_node",
        healthy().broken("node2", "files", mounts=(Mount("/data", "nfs4", "filer:/old", ""),)),
        ("node2",),
        "/data is /old of its server; on 2 other nodes it is /data; /shared is not mounted; 2 other nodes have "
        "filer:/shared there",
    ),
    Broken(
        "files.network_file_systems_answer",
        files_have(healthy(), "node2", "mounts", trouble="no answer within 3 s"),
        ("node2",),
        "/data (nfs4 filer:/data): no answer within 3 s",
    ),
    Broken(
        "files.places_can_be_written_to",
        files_have(healthy(), "node2", "places", is_writable=False),
        ("node2",),
        "home (/root): cannot be written to",
    ),
    Broken(
        "files.there_is_room",
        files_have(healthy(), "node2", "places", free_bytes=5 << 20),
        ("node2",),
        "/root: 5 MiB free; wanted at least 1024",
    ),
    Broken(
        "files.there_is_room",
        files_have(healthy(), "node2", "places", free_inodes=3),
        ("node2",),
        "/root: room for 3 more files",
    ),
    Broken(
        "files.shared_paths_are_shared",
        files_have(roce(), "node3", "shared", trouble=GONE),
        ("node3",),
        "this node sees another folder (written on node1)",
    ),
    Broken(
        "files.the_checkpoint_folder_is_shared",
        files_have(checkpoint(), "node3", "shared", trouble=GONE),
        ("node3",),
        "/data: the token did not appear within 10 s: this node sees another folder (written on node1)",
    ),
    Broken(
        "files.the_checkpoint_folder_is_shared",
        checkpoint("node3"),
        ("node3",),
        "/data: No such file or directory",
    ),
    Broken(
        "files.shared_files_are_seen_soon",
        files_have(roce(), "node3", "shared", seconds=4.5),
        ("node3",),
        "seen late: /data: 4.5 s; wanted within 2 s",
    ),
    Broken(
        "files.shared_paths_take_writes_fast_enough",
        files_have(roce(), "node3", "shared", write_mbytes_per_s=2.5),
        ("node3",),
        "/data: 2.5 MB/s; wanted at least 20 MB/s",
    ),
    Broken(
        "files.no_token_is_left_behind",
        files_have(roce(), "node3", "shared", leftovers=("/data/.preflight-old",)),
        ("node3",),
        "/data/.preflight-old",
    ),
    Broken(
        "files.same_paths_hold_the_same",
        files_have(roce(), "node3", "same", digest="cd" * 32),
        ("node3",),
        "/code: abababababab (7 files, 4096 bytes) on node[1-2,4], cdcdcdcdcdcd (7 files, 4096 bytes) on node3",
    ),
    Broken(
        "files.same_paths_hold_the_same",
        files_have(roce(), "node3", "same", digest=Missing("No such file or directory")),
        ("node3",),
        "/code: No such file or directory",
    ),
    Broken(
        "files.no_pointer_stands_for_data",
        files_have(roce(), "node3", "same", pointers=("model.safetensors",)),
        ("node3",),
        "git-lfs pointers instead of data: /code: model.safetensors",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


def test_a_path_that_nobody_may_write_to_is_not_called_unshared():
    """Without a token nothing is proven: an error, and no fail."""
    run = roce()
    for name in run.names:
        run = files_have(run, name, "shared", trouble="no node could write there", writer="")
    assert {finding.verdict for finding in judge("files.shared_paths_are_shared", run)} == {Verdict.ERROR}


def test_a_checkpoint_folder_that_no_node_has_is_a_fail_on_all_and_no_error():
    """It is measured that it is not there; of --shared it is not said again."""
    run = checkpoint("node1", "node2", "node3", "node4")
    for name in run.names:
        run = files_have(run, name, "shared", trouble="no node could write there: gone on node3", writer="")
    (found,) = judge("files.the_checkpoint_folder_is_shared", run)
    assert (found.verdict, found.nodes) == (Verdict.FAIL, run.names)
    assert {finding.verdict for finding in judge("files.shared_paths_are_shared", run)} == {Verdict.SKIP}
