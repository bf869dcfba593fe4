"""Scripts that start no job."""

from __future__ import annotations

from preflight.launch.read import read_texts
from preflight.launch.rules.check import check_texts


def test_a_script_that_only_sets_variables_speaks_for_the_job():
    """What it exports is the job's, and it is no file that was not judged."""
    files = read_texts({"env.sh": "export NCCL_SOCKET_IFNAME=eth0\nexport PATH=/opt/bin\n"})
    assert [sorted(values) for _, values in files.variables] == [["NCCL_SOCKET_IFNAME", "PATH"]]
    assert files.skips == ()


def test_a_script_that_starts_another_names_it():
    """One that is not given is said to be missing."""
    (skip,) = read_texts({"run.sh": "set -e\nbash train.sh\n"}).skips
    assert (skip.line, "train.sh is not given" in skip.reason) == (2, True)


def test_what_another_launcher_starts_is_named():
    """It is not read, and the line that starts it is."""
    (found,) = check_texts({"a.sh": "#!/bin/bash\nmodule load x\ntorchx run dist.ddp -j 2x8 --script t.py\n"})[0]
    assert (str(found.verdict), found.where[0].line) == ("skip", 3)
    assert "torchx" in found.message
