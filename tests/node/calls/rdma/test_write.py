"""Do client and server of ib_write_bw meet, and is nothing left of them? Over the stand-in of the lab."""

import json
import threading
import time

from preflight.node.calls.rdma import serve, write
from tests.lab import perftest

FAST = {"sends": 392.0, "receives": 392.0}


class Channel:
    """What a call says on the way."""

    def __init__(self):
        self.said = []
        self.has_said = threading.Event()

    def emit(self, event):
        self.said.append(event)
        self.has_said.set()


def asked(folder, **more):
    return {"environment": [["--env", {"PATH": str(folder)}]], "seconds": 5.0, **more}


def played(tmp_path, *, clients, servers, seconds=5.0):
    """What two clients on one node measure with two servers on another, and what the servers say."""
    for name, rates in (("a", clients), ("b", servers)):
        perftest.install(tmp_path / name, rates)
    ports = [{"number": n, "device": f"mlx5_{n}", "port": 1, "gid": 3} for n in range(2)]
    channel, ended = Channel(), {}
    arguments = {**asked(tmp_path / "b", ports=ports), "seconds": seconds}
    thread = threading.Thread(target=lambda: ended.update(serve.run(arguments, channel)))
    thread.start()
    assert channel.has_said.wait(20)
    where = dict(channel.said[0]["serving"])
    writes = [{**port, "address": "127.0.0.1", "tcp_port": where[port["number"]]} for port in ports]
    found = write.run(asked(tmp_path / "a", writes=writes), None)
    thread.join(20)
    return found, ended


def test_all_ports_write_at_once_and_each_has_its_figure(tmp_path):
    """The slower of both ends, in GB/s; the servers end with their clients."""
    found, ended = played(
        tmp_path,
        clients={"mlx5_0": FAST, "mlx5_1": FAST},
        servers={"mlx5_0": FAST, "mlx5_1": {"sends": 392.0, "receives": 88.0}},
    )
    assert found["program"] == str(tmp_path / "a/ib_write_bw")
    assert found["wrote"] == [{"number": 0, "gbytes_per_s": 49.0}, {"number": 1, "gbytes_per_s": 11.0}]
    assert ended == {"served": [[0, ""], [1, ""]]}
    assert "-d mlx5_0 -i 1 -p " in (tmp_path / "b/calls").read_text()


def test_a_port_that_fails_says_why_and_the_other_has_its_figure(tmp_path):
    """A device that is not there; a server without a client is ended."""
    began = time.monotonic()
    found, ended = played(tmp_path, clients={"mlx5_0": FAST}, servers={"mlx5_0": FAST, "mlx5_1": FAST}, seconds=1.5)
    assert found["wrote"][0] == {"number": 0, "gbytes_per_s": 49.0}
    assert found["wrote"][1] == {"number": 1, "error": "Unable to find the Infiniband/RoCE device"}
    assert "did not finish within 1.5 s" in ended["served"][1][1]
    assert time.monotonic() - began < 30


def test_a_server_that_waits_for_nobody_yet_is_called_again(tmp_path, free_tcp_port):
    """Its device takes a moment to open; one that never comes is an error within the time."""
    perftest.install(tmp_path, {"mlx5_0": FAST})
    port = {"number": 0, "device": "mlx5_0", "port": 1, "address": "127.0.0.1", "tcp_port": free_tcp_port}
    found = write.run({**asked(tmp_path, writes=[port]), "seconds": 2.0}, None)
    assert found["wrote"][0]["error"] == "Unable to init the socket connection"
    assert len((tmp_path / "calls").read_text().splitlines()) > 1


def test_without_the_program_nothing_is_started(tmp_path):
    """The controller asks each node first."""
    perftest.install(tmp_path, {})
    assert write.run(asked(tmp_path, writes=[]), None) == {"program": str(tmp_path / "ib_write_bw"), "wrote": []}
    assert not (tmp_path / "calls").exists()
    assert json.loads((tmp_path / "rates.json").read_text()) == {}
