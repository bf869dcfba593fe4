"""Tests of preflight.node.subjects.ports."""

import errno
import os
import socket

import msgspec
import pytest

from preflight.facts.subjects.ports import Ports
from preflight.facts.value import Missing
from preflight.node.agent import netlink
from preflight.node.subjects import ports

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def line(local, state, inode):
    return (
        f"   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0 100\n"
    )


def tree(tmp_path, *, tcp, tcp6=None):
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text(HEADER + tcp)
    if tcp6 is not None:
        (tmp_path / "net/tcp6").write_text(HEADER + tcp6)
    for pid, name, inode in ((300, "late", 11), (20, "sshd", 11), (7, "store", 22)):
        (tmp_path / str(pid) / "fd").mkdir(parents=True)
        (tmp_path / str(pid) / "comm").write_text(name + "\n")
        (tmp_path / str(pid) / "fd/0").symlink_to("/dev/null")
        (tmp_path / str(pid) / "fd/3").symlink_to(f"socket:[{inode}]")
    return os.fspath(tmp_path)


def decoded(proc):
    return msgspec.convert(ports.collect({"proc": proc}), type=Ports, strict=True).listeners


@pytest.mark.skipif("__import__('sys').byteorder != 'little'", reason="the tables are a little-endian machine's")
def test_a_listener_is_named_with_its_program(tmp_path):
    """Listening sockets of both families are told by port, with the lowest pid that has them open."""
    proc = tree(
        tmp_path,
        tcp=line("0100007F:1F90", "0A", 11) + line("0200A8C0:C350", "01", 99),
        tcp6=line("00000000000000000000000000000000:733C", "0A", 22),
    )
    told = [(entry.address, entry.port, entry.program, entry.pid) for entry in decoded(proc)]
    assert told == [("127.0.0.1", 8080, "sshd", 20), ("::", 29500, "store", 7)]


def test_processes_of_other_network_namespaces_are_asked_last(tmp_path):
    """A container's processes seldom hold the host's sockets: the host's own are looked at first, each by pid."""
    for pid, namespace in ((9, 1), (30, 2), (200, 1), (5, 2), ("self", 1)):
        (tmp_path / str(pid) / "ns").mkdir(parents=True)
        (tmp_path / str(pid) / "ns/net").symlink_to(f"net:[{namespace}]")
    (tmp_path / "40").mkdir()
    assert list(ports.nearest_first(os.fspath(tmp_path))) == [9, 200, 5, 30, 40]


def test_those_that_we_descend_from_are_asked_first(tmp_path):
    """Over ssh the one listener of many nodes is the sshd that let us in: with it found, the search is over."""
    for pid, parent in ((1, 0), (30, 1), (200, 30), ("self", 200), (5, 1)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) name) S {parent} 1 1 0\n")
    assert list(ports.nearest_first(os.fspath(tmp_path))) == [30, 200, 1, 5]


def test_a_node_without_ipv6_has_no_second_table(tmp_path):
    """An absent tcp6 is no error, an absent tcp is."""
    proc = tree(tmp_path, tcp=line("00000000:0016", "0A", 11))
    assert [entry.port for entry in decoded(proc)] == [22]
    with pytest.raises(FileNotFoundError):
        ports.collect({"proc": os.fspath(tmp_path / "net")})


def both_ends():
    """A connection of our own whose listener is still open, and the ports of both ends."""
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    accepted, _ = server.accept()
    return (server, client, accepted), {server.getsockname()[1], client.getsockname()[1]}


def test_the_kernel_and_its_table_tell_the_same():
    """Listeners of both families, a connection and what waits for its end: address, port, state and inode agree."""
    (server, client, accepted), used = both_ends()
    with server, client, accepted, socket.create_server(("::", 0), family=socket.AF_INET6) as second:
        used.add(second.getsockname()[1])
        (ended, late, early), waiting = both_ends()
        early.close()
        late.close()
        ended.close()
        asked = netlink.tcp_sockets(ports.EVERY_STATE)
        read = [*ports.table("/proc/net/tcp", socket.AF_INET), *ports.table("/proc/net/tcp6", socket.AF_INET6)]
    mine = sorted(entry for entry in asked if entry[1] in used | waiting)
    assert mine == sorted(entry for entry in read if entry[1] in used | waiting)
    assert {1, 6, 10} <= {state for _, _, state, _ in mine}


def test_the_table_is_read_where_the_kernel_does_not_answer(monkeypatch):
    """A sandbox that allows no netlink costs time, never an answer."""

    def refuse(_states):
        raise PermissionError(errno.EPERM, "netlink")

    monkeypatch.setattr(netlink, "tcp_sockets", refuse)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert server.getsockname()[1] in {port for _, port, _, _ in ports.sockets("/proc", ports.EVERY_STATE)}


def test_a_socket_without_a_process_has_an_unknown_holder(tmp_path):
    """A port held by the kernel or another container is told, with the reason why nobody is named."""
    (listener,) = decoded(tree(tmp_path, tcp=line("00000000:0801", "0A", 77)))
    assert listener.port == 2049
    assert isinstance(listener.program, Missing)
    assert listener.program.kind == "failed"
    assert listener.pid == listener.program


def test_sockets_that_share_a_port_are_one_line(tmp_path):
    """SO_REUSEPORT listeners that nobody can be named for do not fill the facts."""
    proc = tree(tmp_path, tcp=line("00000000:0801", "0A", 77) + line("00000000:0801", "0A", 78))
    assert len(decoded(proc)) == 1


def test_our_own_listener_is_found():
    """On the machine at hand a listening socket of this process is found with its pid."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (mine,) = [entry for entry in decoded("/proc") if entry.port == port]
        assert (mine.address, mine.pid) == ("127.0.0.1", os.getpid())
        assert ports.holder_of_port("/proc", port) == (os.getpid(), mine.program)
    assert ports.holder_of_port("/proc", port) is None


def test_a_table_that_is_no_table_is_an_error(tmp_path):
    """Text of another form raises, so that the subject is missing instead of empty."""
    with pytest.raises(ValueError):
        ports.collect({"proc": tree(tmp_path, tcp=line("nonsense", "0A", 11))})


@pytest.mark.skipif("__import__('sys').byteorder != 'little'", reason="the tables are a little-endian machine's")
def test_ports_of_the_ephemeral_range_are_counted_once(tmp_path):
    """Listeners and connections alike, many of one port as one; an unknown range is no 0."""
    tcp = line("0100007F:1F90", "0A", 11) + 2 * line("0200A8C0:C350", "01", 99) + line("0200A8C0:C351", "06", 0)
    proc = tree(tmp_path, tcp=tcp)
    assert msgspec.convert(ports.collect({"proc": proc}), type=Ports, strict=True).ephemeral_in_use.kind == "absent"
    (tmp_path / "sys/net/ipv4").mkdir(parents=True)
    (tmp_path / "sys/net/ipv4/ip_local_port_range").write_text("32768\t60999\n")
    assert ports.collect({"proc": proc})["ephemeral_in_use"] == 2


@pytest.mark.skipif("__import__('sys').byteorder != 'little'", reason="the tables are a little-endian machine's")
@pytest.mark.parametrize(
    ("sockstat", "told"),
    [
        ("TCP: inuse 5 orphan 9 tw 3 alloc 19 mem 0", 12),
        ("TCP: inuse 5000 orphan 9 tw 3 alloc 19 mem 0", 1),
        ("TCP: inuse 5 orphan 0 tw 30000 alloc 19 mem 0", 1),
        ("UDP: inuse 0 mem 0", 1),
    ],
)
def test_where_the_kernel_counts_few_sockets_that_count_is_given(tmp_path, sockstat, told):
    """Sockets of both families and in TIME_WAIT are an upper bound; only where it is high are ports counted."""
    proc = tree(tmp_path, tcp=line("0200A8C0:C350", "01", 99))
    (tmp_path / "sys/net/ipv4").mkdir(parents=True)
    (tmp_path / "sys/net/ipv4/ip_local_port_range").write_text("32768\t60999\n")
    (tmp_path / "net/sockstat").write_text(f"sockets: used 19\n{sockstat}\n")
    (tmp_path / "net/sockstat6").write_text("TCP6: inuse 4\nUDP6: inuse 0\n")
    assert ports.collect({"proc": proc})["ephemeral_in_use"] == told
