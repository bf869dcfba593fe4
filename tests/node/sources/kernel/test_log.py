"""Tests of preflight.node.sources.kernel.log."""

import ctypes
import os

import pytest

from preflight.node.sources.kernel import log


def test_lines_that_can_report_nothing_are_not_searched():
    """Few lines of a long log need the patterns, which take a hundred times as long as the look for their words."""
    noise = [f"6,{number},1,-;bridge0: port {number}(node{number}) entered disabled state" for number in range(50)]
    telling = "3,9,5000000,-;NVRM: Xid (PCI:0000:07:00): 95, x"
    assert log.of_interest("\n".join([*noise, telling, *noise]).encode()) == [telling.encode()]
    assert log.of_interest("\n".join(noise).encode()) == []


def test_the_records_of_a_log_are_read_to_the_end(tmp_path):
    """What stands in the log when we look is read; we do not wait for more."""
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(writer, b"3,1,2,-;NVRM: Xid (PCI:0000:07:00): 79, x\n")
        assert [event["code"] for event in log.collect(os.fspath(path))] == [79]
    finally:
        os.close(writer)


def test_a_log_that_is_longer_than_our_time_is_not_measured(tmp_path):
    """The newest lines come last: half of a log says nothing of them."""
    path = tmp_path / "kmsg"
    path.write_text("6,1,2,-;all is well\n")
    assert log.collect(os.fspath(path), seconds=-1.0)["kind"] == "failed"


def test_an_empty_log_is_not_one_without_faults(tmp_path):
    """Containers have /dev/null in its place."""
    (tmp_path / "kmsg").touch()
    assert log.collect(os.fspath(tmp_path / "kmsg"))["kind"] == "denied"


def test_a_saved_log_is_read_line_by_line(tmp_path):
    """A file of many records, with their continuation lines, gives the events of all of them."""
    path = tmp_path / "kmsg"
    record = "3,{n},2,-;NVRM: Xid (PCI:0000:07:00): {code}, x\n SUBSYSTEM=pci\n DEVICE=+pci:0000:07:00.0\n"
    path.write_text("".join(record.format(n=n, code=code) for n, code in enumerate((79, 48, 74))))
    assert [event["code"] for event in log.collect(os.fspath(path))] == [79, 48, 74]


def test_a_log_that_is_not_there_is_denied(tmp_path):
    """A container without /dev/kmsg is not permitted to look, and nothing is taken for well."""
    assert log.collect(os.fspath(tmp_path / "none"))["kind"] == "denied"


def test_a_log_that_ends_within_a_line_was_cut_short(tmp_path):
    """The kernel ends every record: what is missing behind it may be the newest, and the one that matters."""
    path = tmp_path / "kmsg"
    path.write_text("3,1,5000000,-;NVRM: loading NVIDIA UNIX\n3,2,6000000,-;NVRM: Xid (PCI:0000:13:00): 7")
    assert log.collect(os.fspath(path))["kind"] == "failed"


FRESH = "5,0,0,-;Linux version 6.8.0 (of this node)\n3,1,9000000,-;NVRM: Xid (PCI:0000:07:00): 79, x\n"


def answering(monkeypatch, text):
    """Let klogctl of this machine answer a text."""

    def klogctl(_name, kind, held, _size):
        if kind == log.SIZE_BUFFER:
            return 1 << 12
        ctypes.memmove(ctypes.c_char_p(held), text, len(text))
        return len(text)

    monkeypatch.setattr(log.children, "in_libc", klogctl)


@pytest.mark.parametrize("seconds", [b"    0.000000", b"12345.678901"])
def test_a_log_in_a_files_place_is_read_and_not_that_of_this_machine(tmp_path, monkeypatch, seconds):
    """Whatever this machine's own log begins with: the same time as the file's, or another."""
    answering(monkeypatch, b"<5>[%s] Linux version 6.8.0 (of this node)\n<6>[%s] all is well\n" % (seconds, seconds))
    path = tmp_path / "kmsg"
    path.write_text(FRESH)
    assert [event["code"] for event in log.collect(os.fspath(path))] == [79]


@pytest.mark.parametrize(
    ("oldest", "is_taken"),
    [
        (b"<5>[    0.000000] Linux version 6.8.0 (of this node)", True),
        (b"<5>[    0.000000][    T0] Linux version 6.8.0 (of this node)", True),
        (b"<5>[    0.000000] Linux version 6.1.0 (of another)", False),
        (b"<5>[    0.000001] Linux version 6.8.0 (of this node)", False),
    ],
)
def test_the_kernels_log_is_taken_at_once_where_it_begins_with_the_same_line(monkeypatch, oldest, is_taken):
    """Its time is no proof: the log of every machine that has lost no line begins at 0."""
    answering(monkeypatch, oldest + b"\n<6>[    1.000000] more\n")
    together = log.at_once(FRESH.partition("\n")[0].encode() + b"\n")
    assert together.partition(b"\n")[0] == (oldest if is_taken else b"")


def test_ages_in_a_saved_log_count_from_its_last_line(tmp_path, monkeypatch):
    """How long this machine has been up is nothing about another."""
    path = tmp_path / "kmsg"
    path.write_text(FRESH + "6,2,69000000,-;the last line\n")
    monkeypatch.setattr(log.time, "monotonic", lambda: 5.0)
    assert [event["age_seconds"] for event in log.collect(os.fspath(path))] == [60.0]


@pytest.mark.parametrize("first", [b"6,1,1,-;of another machine\n", b"no record\n", b"6,1\n", b"6,1,x,-;y\n", b""])
def test_a_log_that_is_not_that_of_the_kernel_is_not_taken_for_it(first):
    """What the kernel gives in one call must begin with the oldest record of the file."""
    assert log.at_once(first) == b""


def test_the_kernels_log_is_the_same_at_once_and_record_by_record():
    """Where both can be read, no line is missing from either."""
    try:
        descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        pytest.skip("the kernel's log is not for us")
    with os.fdopen(descriptor, "rb", buffering=0):
        found = log.records(descriptor, end=float("inf"))
    together = log.at_once(found[0]) if found else b""
    if not together:
        pytest.skip("it was cleared, is empty, or has moved on")
    texts = [record.partition(b";")[2].partition(b"\n")[0] for record in found[:-20]]
    assert [text for text in texts if b"\\x" not in text and text not in together] == []
