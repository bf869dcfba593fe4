"""Are files found and read?"""

from __future__ import annotations

import pytest

from preflight.launch.read import read_files, read_texts
from preflight.launch.rules.check import check_files
from preflight.said.errors import UsageError
from tests.launch.samples import config


def test_globs_and_files_that_are_not_there(tmp_path):
    """A pattern that fits nothing is a usage error."""
    (tmp_path / "n0.yaml").write_text(config(0))
    (tmp_path / "n1.yaml").write_text(config(0))
    files = read_files([str(tmp_path / "n*.yaml")])
    assert len(files.files) == 2
    assert [found.check for found in check_files(files)] == ["launch.ranks_are_distinct"]
    for bad in ("missing.sh", "none*.yaml", ""):
        with pytest.raises(UsageError):
            read_files([str(tmp_path / bad)])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.conf", "a = 1\nNCCL_DEBUG=INFO\n"),
        ("a.env", "PET_NNODES=2\n"),
        ("a.env", "MASTER_ADDR=node1\n"),
        ("a.env", "NCCL_NO_SUCH=1\n"),
        ("a.sh", "export LD_LIBRARY_PATH=/opt/nccl\n"),
        ("ds.json", '{"train_batch_size": 8}'),
        ("hostfile", "node1 slots=8\n"),
    ],
)
def test_one_value_of_a_job_is_enough_to_be_judged(name, text):
    """The others beside it are nobody's business."""
    files = read_texts({name: text})
    assert files.are_judged
    assert files.skips == ()
