"""Is there a place to look at where a log just stops?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose
from preflight.diagnose.ends.end import End

LAST = {
    "Using /root/.cache/torch_extensions/py310_cu121 as PyTorch extensions root...": "lock",
    "[2030-01-02 11:02:11 TP0] Init torch distributed begin.": "MASTER_ADDR",
    "INFO: Rendezvous'ing worker group": "--rdzv-id",
    "n1:711:711 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>": "NCCL_SOCKET_IFNAME",
    "n1:711:711 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 1": "NCCL_P2P_DISABLE",
    "Loading safetensors checkpoint shards:   0% Completed | 0/30 [00:00<?, ?it/s]": "storage",
}


@pytest.mark.parametrize("line", LAST)
def test_the_last_milestone_tells_where_to_look(line):
    """First of what is to be collected."""
    found = diagnose(["srun: job 4711 has been allocated resources", line])
    assert found.outcome.end is End.JUST_STOPS
    assert LAST[line] in found.collect[0]


def test_a_job_that_steps_gets_none():
    """What it waits for is not known by its milestones."""
    found = diagnose(
        [f"[rank{rank}]: step {step} loss 2" for step in (1, 2) for rank in range(4) if rank < 3 or step < 2]
    )
    assert found.outcome.end is End.JUST_STOPS
    assert found.collect[0].startswith("while it hangs")
