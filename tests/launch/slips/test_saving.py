"""Is it told where the nodes of a job rename each other's files, by the mounts that their kernels list?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.subjects.files import Mount
from preflight.judge.ledger.findings import Verdict
from preflight.launch.rules.check import check_texts
from preflight.node.calls.storage.mounts import network_mounts
from preflight.testing import healthy

START = (
    "torchrun --nnodes=2 --nproc_per_node=8 --node_rank={} --master_addr=10.0.0.1 --master_port=29500 train.py "
    "--output {}\n"
)
SAVES = "def save(state):\n    torch.save(state, 'tmp.pth')\n    {}\n\nif args.local_rank == 0:\n    save(model)\n"
RENAMES = "os.rename('tmp.pth', 'last.pth')"


def told(tmp_path, table, program, start=START):
    """What is said of the program where both nodes have these mounts."""
    (tmp_path / "mounts").write_text(table.format(tmp_path))
    held = msgspec.convert(network_mounts(str(tmp_path / "mounts")), type=tuple[Mount, ...], strict=False)
    run = healthy(2)
    for name in run.names:
        run = run.broken(name, "files", mounts=held)
    texts = {f"n{rank}.sh": f"cd {tmp_path}\n{start.format(rank, tmp_path / 'out')}" for rank in (0, 1)}
    found, _ = check_texts({**texts, "train.py": f"import os, torch\n{program}"}, run.cluster)
    return [one for one in found if one.check == "launch.program_keeps_what_it_is_given"]


@pytest.mark.parametrize(
    ("table", "program", "nodes"),
    [
        ("nfs1:/home {} nfs4 rw 0 0\n", SAVES.format(RENAMES), ("node1", "node2")),
        ("/dev/sda1 {} ext4 rw 0 0\n", SAVES.format(RENAMES), None),
        ("nfs1:/home /elsewhere nfs4 rw 0 0\n", SAVES.format(RENAMES), None),
        ("nfs1:/home {} nfs4 rw 0 0\n", SAVES.format("pass"), None),
        ("nfs1:/home {} nfs4 rw 0 0\n", SAVES.format(RENAMES).replace("local_rank", "rank"), None),
    ],
)
def test_a_rename_of_every_node_in_one_folder_fails(tmp_path, table, program, nodes):
    """On disks of their own each node has its files; without a rename the last one wins, which is a warning."""
    found = [one for one in told(tmp_path, table, program) if one.verdict is Verdict.FAIL]
    assert [one.nodes for one in found] == ([nodes] if nodes else [])
    assert all("nfs1:/home" in one.message and one.where[0].file == "train.py" for one in found)


def test_a_folder_that_no_option_names_is_only_warned_of(tmp_path):
    """It is started on a file server, and may write anywhere."""
    found = told(
        tmp_path, "nfs1:/home {} nfs4 rw 0 0\n", SAVES.format(RENAMES), start=START.replace(" --output {}", "")
    )
    assert [one.verdict for one in found] == [Verdict.WARN]


def test_a_program_that_saves_on_every_node_is_warned_of(tmp_path):
    """Where the nodes' file systems are not known to be one."""
    found = told(tmp_path, "/dev/sda1 {} ext4 rw 0 0\n", SAVES.format("pass"))
    assert [one.verdict for one in found] == [Verdict.WARN]
