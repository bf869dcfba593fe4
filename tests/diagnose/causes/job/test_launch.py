"""Do lines of launchers lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ('chroot("/run/sshd"): Operation not permitted [preauth]', "sshd-chroot"),
    ("bash: [: : integer expression expected", "shell-variable-empty"),
    ("start.sh: line 4: NODE_RANK: unbound variable", "shell-variable-empty"),
    (
        "Command 'ssh -o PasswordAuthentication=no 192.168.3.100 hostname' returned non-zero exit status 255.",
        "ssh-login",
    ),
    ("node2: Permission denied (publickey,password).", "ssh-login"),
    ("ssh: connect to host node2 port 22: Connection refused", "ssh-login"),
    ("node2: bash: /opt/env/bin/python: No such file or directory", "path-missing-on-node"),
    ("RuntimeError: launcher 'pdsh' not installed.", "pdsh-missing"),
    ("train.py: error: unrecognized arguments: --local-rank=0", "usage-error"),
    (
        "AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 256 != 1 * 85 * 3",
        "deepspeed-batch",
    ),
    ("AssertionError: world_size (8) is not divisible by 3", "parallel-sizes"),
    ("PRTE was unable to open the hostfile:", "hostfile"),
    ('exec: "torchrun": executable file not found in $PATH: unknown', "path-missing-on-node"),
    ("There are not enough slots available in the system to satisfy the 4", "hostfile"),
    ("yaml.scanner.ScannerError: mapping values are not allowed here", "config-file"),
    (
        "RuntimeError: tracing error at step 42: expected the next 2 parameters in the parameter fetch queue to be () but got ().",
        "zero-order",
    ),
    ("Exception: expected value at line 1 column 1", "config-file"),
    ("export PDSH_RCMD_TYPE=ssh", ""),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
