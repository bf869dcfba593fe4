"""Is the error of a rank told in one line, and read as its own or as the consequence of another's?"""

from __future__ import annotations

import pytest

from preflight.job.start import words

STACK = "\nException raised from create at NCCLUtils.cpp:77 (most recent call first):\nframe #0: Connection refused\n"
COMPLETION = "NET/IB: Got completion from peer 10.0.0.2<4711> with {} opcode=0 len=0 vendor err 129 (Recv) hca mlx5_0"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("ValueError: odd", "ValueError: odd"),
        ("ValueError: odd\nand more of it", "ValueError: odd"),
        (
            "E: NCCL error\nncclSystemError: System call.\nLast error:\nno room\n" + STACK,
            "E: NCCL error; last error: no room",
        ),
        ("E: NCCL error\nLast error:\none\ntwo", "E: NCCL error; last error: one; two"),
        ("E: NCCL error\nLast error:\n" + STACK, "E: NCCL error"),
        ("", ""),
    ],
)
def test_an_error_is_told_in_one_line(text, line):
    """The first line, and what NCCL says came last; never the native stack."""
    assert words.in_one_line(text) == line


@pytest.mark.parametrize(
    ("text", "is_of_a_peer"),
    [
        (COMPLETION.format("status=12"), True),
        (COMPLETION.format("error 12,"), True),
        (COMPLETION.format("status=IBV_WC_RETRY_EXC_ERR(12)"), True),
        (COMPLETION.format("status=5"), True),
        (COMPLETION.format("error 11,"), True),  # what the other side found wrong
        ("Last error:\nsocketProgressOpt: Call to recv from 10.0.0.3<41234> failed : Connection timed out", True),
        ("Last error:\nsocketProgressOpt: Call to send to 10.0.0.3<41234> failed : No route to host", True),
        ("Last error:\nsocketProgressOpt: Call to send to 10.0.0.3<41234> failed : Network is unreachable", False),
        ("Last error:\nsocketPollConnect: exceeded retries (20000)", True),
        ("Last error:\nSocket recv failed while polling for opId=0x7f0a6c0", True),  # NCCL 2.17 to 2.30
        ("NET/IB : mlx5_0:1 async fatal event on QP (0x7f): local work queue catastrophic error", False),
        (COMPLETION.format("status=4"), False),  # local protection: its own memory
        (COMPLETION.format("status=125"), False),
        ("NCCL error: remote process exited or there was a network error", True),
        ("RuntimeError: [gloo] Connection closed by peer [10.0.0.2]:4711", True),
        ("DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server", True),
        ("RuntimeError: [1] is setting up NCCL communicator: store->get('0') got error: Socket Timeout", True),
        ("RuntimeError: Some NCCL operations have failed or timed out. Due to the asynchronous nature", True),
        ("Last error:\nNET/OFI Request completed with error. RC: 21. Error: 4126: Unresponsive receiver", True),
        ("Last error:\nsocketPollConnect: connect to 10.0.0.7<4123> returned Connection refused", True),
        ("Last error:\nError: failed to extend /dev/shm/nccl-a to 9637892 bytes: No space left on device (28)", False),
        ("CUDA error: an illegal memory access was encountered" + STACK, False),
    ],
)
def test_a_peers_failure_is_told_from_an_own_one(text, is_of_a_peer):
    """What the native stack happens to be called counts for nothing."""
    assert words.speaks_of_a_peer(text) is is_of_a_peer


@pytest.mark.parametrize(
    ("text", "peers"),
    [
        (COMPLETION.format("status=12"), {"10.0.0.2"}),
        (
            "Last error:\nsocketProgressOpt: Call to recv from 10.0.0.3<41234> failed : Connection reset by peer",
            {"10.0.0.3"},
        ),
        ("socketProgress: Connection closed by remote peer fe80::1%eth0<4711>", {"fe80::1%eth0"}),
        ("Net : Connection closed by remote peer node2<4711>", {"node2"}),
        ("Socket recv failed while polling for opId=0x7f0a6c0", set()),
    ],
)
def test_the_peer_is_the_one_in_the_address(text, peers):
    """Of whatever transport."""
    assert words.accused(text) == peers


@pytest.mark.parametrize(
    ("line", "address"),
    [
        ("n1:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>", "10.0.0.2"),  # up to 2.20
        ("n1:1:1 [0] NCCL INFO Bootstrap: Using ib0:fe80::1%ib0<0>", "fe80::1%ib0"),
        ("n1:1:1 [0] NCCL INFO Bootstrap : Using [0]eth0:10.0.0.2<0>", "10.0.0.2"),  # 2.9 and before
        ("n1:1:1 [0] NCCL INFO NET/Plugin: none", ""),
    ],
)
def test_a_rank_has_the_address_that_its_log_tells(line, address):
    """It is what the others call it."""
    assert words.own_address(line) == address


def test_a_log_tells_that_nccl_ended_the_rank_for_a_peer():
    """By waiting too long, or because the peer's connection closed; a fault of the GPU is none of these."""
    assert words.was_aborted(f"[rank0]:[E] [Rank 0] {words.WATCHDOG}: WorkNCCL(SeqNum=5, OpType=ALLREDUCE)")
    assert words.was_aborted("misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer node2<4711>")
    assert not words.was_aborted("terminate called after throwing an instance of 'c10::AcceleratorError': an Xid")


def test_what_is_said_of_every_error_of_a_class_is_no_cause():
    """ncclSystemError mentions sockets and malloc in each message."""
    text = "E: NCCL error\nncclSystemError: System call (e.g. socket, malloc) failed.\nLast error:\nno room" + STACK
    assert words.particular(text) == "E: NCCL error\n\nLast error:\nno room"


def test_the_last_warning_of_its_own_is_found_in_ncclls_log():
    """One about a peer is the consequence of something else."""
    log = """n1:1:1 [0] NCCL INFO Using network IB
n1:1:1 [0] transport/net_ib.cc:190 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory
n1:1:1 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer n2<4711>
"""
    assert words.warned(log) == "Call to ibv_reg_mr failed with error Cannot allocate memory"
    assert words.warned("NCCL INFO nothing") == ""


@pytest.mark.parametrize(
    ("trace", "number"),
    [
        ('{"pg_status": {"0": {"last_enqueued_collective": 17}, "1": {"last_enqueued_collective": 3}}}', 17),
        ("", -1),
        ("not readable: it has no end", -1),
        ('{"pg_status": {}}', -1),
        ('{"pg_status": {"0": {"last_enqueued_collective": "x"}}}', -1),
        ("[]", -1),
    ],
)
def test_a_flight_recorder_tells_how_far_a_rank_came(trace, number):
    """-1 where it does not: no rank is blamed for that."""
    assert words.last_entered(trace) == number
