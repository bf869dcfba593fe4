"""Do lines of the training lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ("  (_fsdp_wrapped_module): Bagel(", ""),
    ("AttributeError: 'Llama' object has no attribute '_fsdp_wrapped_module'", "fsdp"),
    (
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
        "loss-scale-minimum",
    ),
    ("RuntimeError: Function 'MulBackward0' returned nan values in its 0th output.", "nan"),
    (
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        "wrong-device",
    ),
    ("RuntimeError: expected scalar type Half but found Float", "wrong-dtype"),
    ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 16x2)", "wrong-shape"),
    ("RuntimeError: Trying to backward through the graph a second time", "backward-twice"),
    ("AttributeError: Can't pickle local object 'f.<locals>.g'", "pickling"),
    (
        "lightning.fabric.utilities.exceptions.MisconfigurationException: no supported gpu backend",
        "trainer-misconfigured",
    ),
    ("[rank2]: AssertionError: Rank 2 has different values for step: 40.0 Other ranks: 41.0", "ranks-diverged"),
    ("AssertionError: this rank has no group in the table of the program", "assertion"),
    (
        "[WARNING] Overriding even_batches is only supported for map-style datasets, yet some dataloaders given were iterable",
        "",
    ),
    (
        "UserWarning: When using async grad allreduce it is recommended to set the environment variable CUDA_DEVICE_MAX_CONNECTIONS to 1",
        "",
    ),
    (
        "[1,0]<stderr>:[2019-04-13 13:53:31.851456: W horovod/common/operations.cc:588] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.",
        "horovod-stalled",
    ),
    ("HorovodBroadcast_global_step_0 [missing ranks: 1]", "horovod-stalled"),
    (
        "horovod.common.exceptions.HorovodInternalError: Mismatched ALLREDUCE tensor shapes: One rank sent a tensor of shape [5], but another rank sent a tensor of shape [6].",
        "horovod-mismatch",
    ),
    ("FileExistsError: [Errno 17] File exists: '/scratch/data/files/S043'", "made-twice"),
    ("FileExistsError: [Errno 17] File exists: '/000000_epoch_shape'", "shared-memory-left"),
    ("ValueError: API key must be 40 characters long, yours was 13", "tracker-login"),
    ("wandb.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])", "tracker-login"),
    (
        "WARNING: on rank 11 found iteration 15 in the metadata while max iteration across the ranks is 20, replacing it with max iteration.",
        "ranks-diverged",
    ),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
