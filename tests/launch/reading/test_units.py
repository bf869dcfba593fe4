"""Are the commands of a unit of systemd read, line by line, and other files left alone?"""

from __future__ import annotations

from preflight.launch.reading.units import as_script, is_unit
from preflight.launch.rules.check import check_texts

UNIT = """[Unit]
Description=node %i

[Service]
Environment="NCCL_SOCKET_IFNAME=eth0" OMP_NUM_THREADS=4
EnvironmentFile=-/etc/train.env
WorkingDirectory=/srv/train
ExecStart=-/srv/env/bin/torchrun --nnodes=2 \\
  --node_rank=%i --master_addr=10.0.0.1 --nproc_per_node=8 train.py --share 50%%

[Install]
WantedBy=multi-user.target
"""


def test_a_unit_is_one_whose_command_starts_a_job():
    """Another service is not, nor is a script that only speaks of one."""
    assert is_unit(UNIT)
    assert not is_unit("[Service]\nExecStart=/usr/sbin/sshd -D\n# torchrun is started elsewhere\n")
    assert not is_unit("#!/bin/bash\ntorchrun t.py\n")


def test_its_lines_keep_their_numbers():
    """Variables are exported, folders entered, the instance is an argument."""
    assert as_script(UNIT).split("\n") == [
        *[""] * 4,
        'export "NCCL_SOCKET_IFNAME=eth0" OMP_NUM_THREADS=4',
        "source /etc/train.env",
        "cd /srv/train",
        "/srv/env/bin/torchrun --nnodes=2 \\",
        "  --node_rank=$1 --master_addr=10.0.0.1 --nproc_per_node=8 train.py --share 50%",
        *[""] * 4,
    ]


def test_a_fault_is_told_at_its_line_of_the_unit():
    """Whatever the file is called."""
    wrong = UNIT.replace("10.0.0.1", "localhost")
    for name in ("train@.service", "train.unit"):
        found = check_texts({name: wrong})[0]
        assert [(one.check, one.where[0].line) for one in found if str(one.verdict) == "fail"] == [
            ("launch.master_address_leads_to_rank_0", 9)
        ]


def test_another_unit_is_named_for_what_it_is():
    """It starts no job that is read."""
    found = check_texts({"sshd.service": "[Service]\nExecStart=/usr/sbin/sshd -D\n"})[0]
    assert ["a unit of systemd" in one.message for one in found] == [True]
