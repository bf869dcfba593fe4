"""Is a failed rank's last word read as the cause that it speaks of?"""

from __future__ import annotations

import pytest

from preflight.jobs.symptoms import KILLED, SILENT, SYMPTOMS, UNKNOWN, symptom


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("RuntimeError: [enforce fail] Unable to find interface for: eth9", "wrong interface"),
        ("ncclInternalError: Bootstrap : no socket interface found", "wrong interface"),
        ("connect [127.0.1.1]:41234: Connection refused", "loopback"),
        ("DistNetworkError: The server socket has failed to bind to [::]:29500: EADDRINUSE", "port is taken"),
        ("DistStoreError: Timed out after 31 seconds waiting for clients. 2/3 clients joined.", "world size"),
        ("RuntimeError: accelerate sees a world of 1 and rank 0; wanted 2 and 1", "world size"),
        ("ImportError: libcudnn.so.9: cannot open shared object file", "installation differs"),
        ("OSError: [Errno 28] No space left on device", "no room"),
        ("torch.OutOfMemoryError: CUDA out of memory", "out of memory"),
        ("PermissionError: [Errno 13] Permission denied: '/ckpt'", "not permitted"),
        ("OSError: No route to host", "no route"),
        ("Last error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000", "one GPU"),
        ("torch.AcceleratorError: CUDA error: invalid device ordinal", "more ranks than GPUs"),
        ("Last error:\nCall to ibv_reg_mr failed with error Cannot allocate memory", "memlock"),
        ("Last error:\nCall to ibv_create_cq failed with error Cannot allocate memory", "memlock"),
        ("Last error:\nError while creating shared memory segment /dev/shm/nccl-4Uu2Vb (size 9637888)", "/dev/shm"),
        ("Last error:\nCall to posix_fallocate failed: No space left on device /dev/shm/nccl-x", "/dev/shm"),
        (
            "NET/IB : Got completion from peer 10.0.0.2<4791> with error 12, opcode 0, len 0, vendor err 129",
            "lost the way",
        ),
        ("NET/IB: Got completion from peer fd00::2<4791> with status=12 opcode=0 len=0 vendor err 129", "lost the way"),
        (
            "Got completion from peer 10.0.0.2<1> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0)",
            "lost the way",
        ),
        ("Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1", "cannot be connected"),
        ("RuntimeError: connect() failed: Connection timed out", "port is closed"),
    ],
)
def test_words_of_libraries_are_read(text, cause):
    """The particular before the general: a refused loopback is no closed port."""
    assert cause in symptom(text=text, exited="1").cause


@pytest.mark.parametrize("exited", KILLED)
def test_a_signal_is_read(exited):
    """A rank that said nothing still tells how it ended."""
    assert symptom(text="", exited=exited) is KILLED[exited]


def test_silence_is_a_symptom_and_strange_words_are_none():
    """Neither is given a cause that nobody saw."""
    assert symptom(text="", exited="stopped") is SILENT
    assert symptom(text="ValueError: weird", exited="1") is UNKNOWN
    assert symptom(text="", exited="1") is UNKNOWN


def test_every_row_has_a_cause_and_a_fix():
    """A cause alone leaves the reader where they were."""
    assert all(row.cause and row.fix for row in (*SYMPTOMS, *KILLED.values(), SILENT))
