"""Is a failed rank's last word read as the cause that it speaks of?"""

from __future__ import annotations

import pytest

from preflight.diagnose import cause_named
from preflight.job.start.symptoms import ENDED_BY, SILENT, UNKNOWN, symptom


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("RuntimeError: [enforce fail] Unable to find interface for: eth9", "interface-not-found"),
        ("ncclInternalError: Bootstrap : no socket interface found", "interface-not-found"),
        ("connect [127.0.1.1]:41234: Connection refused", "loopback-address"),
        ("DistNetworkError: The server socket has failed to bind to [::]:29500: EADDRINUSE", "port-in-use"),
        ("DistStoreError: Timed out after 31 seconds waiting for clients. 2/3 clients joined.", "not-all-joined"),
        ("RuntimeError: accelerate sees a world of 1 and rank 0; wanted 2 and 1", "world-size-mismatch"),
        ("RuntimeError: two processes were started with the same rank", "same-rank-twice"),
        ("ImportError: libcudnn.so.9: cannot open shared object file", "library-missing"),
        ("OSError: [Errno 28] No space left on device", "disk-full"),
        ("torch.OutOfMemoryError: CUDA out of memory", "gpu-out-of-memory"),
        ("PermissionError: [Errno 13] Permission denied: '/ckpt'", "permission-denied"),
        ("OSError: No route to host", "no-route"),
        ("RuntimeError: connect() failed: Connection timed out", "connect-timed-out"),
    ],
)
def test_words_of_libraries_are_read(text, cause):
    """The particular before the general: a refused loopback is no closed port."""
    assert symptom(text=text, exited="1").cause == cause_named(cause).meaning


@pytest.mark.parametrize("exited", ENDED_BY)
def test_a_signal_is_read(exited):
    """A rank that said nothing still tells how it ended."""
    assert symptom(text="", exited=exited).cause == cause_named(ENDED_BY[exited]).meaning


def test_silence_is_a_symptom_and_strange_words_are_none():
    """Neither is given a cause that nobody saw."""
    assert symptom(text="", exited="stopped") is SILENT
    assert symptom(text="ValueError: weird", exited="1") is UNKNOWN
    assert symptom(text="", exited="1") is UNKNOWN
