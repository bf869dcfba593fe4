"""Tests of preflight.node.calls.files."""

import json
import os
import signal
import time

import msgspec
import pytest

from preflight.facts.subjects.files import Files, Named
from preflight.node.calls import files
from tests.node.agent.test_within import spinning

SOON = {"seconds": 30.0}


class Scripted:
    """A channel whose controller says what stands in a list."""

    def __init__(self, *orders):
        self.orders = list(orders)
        self.events = []
        self.seen = []

    def emit(self, event):
        """Keep it, with what lies in the folder at that moment."""
        self.events.append(json.loads(json.dumps(event)))
        self.seen.append(sorted(os.listdir(self.folder)) if hasattr(self, "folder") else [])

    def receive(self, _timeout_s):
        """The next order."""
        return self.orders.pop(0)


@pytest.fixture(autouse=True)
def signals():
    """The call sets a handler of its own; the tests go on without."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def ask(channel, *, shared=(), same=(), checkpoint=""):
    arguments = {"environment": [], "name": "n", "shared": list(shared), "same": list(same), "run": "r1"}
    arguments["digest_seconds"] = 60.0
    arguments["checkpoint"] = checkpoint
    return msgspec.convert(files.run(arguments, channel), type=Files, strict=True)


def test_home_and_temporary_folder_are_always_looked_at():
    """Nothing asked is home, /tmp and the mounts, and no question back."""
    channel = Scripted()
    told = ask(channel)
    assert [place.purpose for place in told.places] == ["home", "temporary files"]
    assert channel.events == []
    assert told.shared == told.same == ()


def test_a_token_is_written_read_and_removed(tmp_path):
    """The writer's token is there while the others look, and gone when the call ends."""
    path = os.fspath(tmp_path)
    channel = Scripted(
        {"write": {path: "secret"}, **SOON},
        {"read": {path: {"token": "secret", "writer": "n"}}, **SOON},
        {"finish": True},
    )
    channel.folder = path
    (shared,) = ask(channel, shared=[path]).shared
    assert (shared.trouble, shared.writer) == ("", "n")
    assert isinstance(shared.write_mbytes_per_s, float)
    assert channel.seen == [[], [".preflight-r1-secret"], [".preflight-r1-secret"]]
    assert os.listdir(path) == []


def test_another_folder_of_the_same_name_is_not_shared(tmp_path, monkeypatch):
    """No token, or another one, is told apart from a good one."""
    monkeypatch.setattr(files, "VISIBLE_SECONDS", 0.2)
    path = os.fspath(tmp_path)
    order = {"read": {path: {"token": "secret", "writer": "node1"}}, **SOON}
    (shared,) = ask(Scripted(order, {"finish": True}), shared=[path]).shared
    assert "this node sees another folder" in shared.trouble
    (tmp_path / ".preflight-r1-secret").write_text("other")
    (shared,) = ask(Scripted(order, {"finish": True}), shared=[path]).shared
    assert "its content differs" in shared.trouble
    assert os.listdir(path) == [".preflight-r1-secret"]  # not ours: it stays


def test_a_token_of_another_node_of_the_run_is_nobody_elses_to_remove(tmp_path):
    """One that could not tell in time what it wrote is in the way of none, and none takes its token away."""
    path = os.fspath(tmp_path)
    (tmp_path / ".preflight-r1-one").write_text("one")
    channel = Scripted({"write": {path: "two"}, **SOON}, {"finish": True})
    ask(channel, shared=[path])
    assert channel.events[1] == {"written": {}}
    assert os.listdir(path) == [".preflight-r1-one"]


def test_a_slow_disk_costs_its_speed_and_not_the_round(tmp_path, monkeypatch):
    """What cannot be written within the time of the round has no speed; all else is told, and in time."""
    monkeypatch.setattr(files, "write_speed", lambda _path: time.sleep(30))
    order = {"read": {os.fspath(tmp_path): {"refused": "no", "asked": "a"}}, "seconds": 0.5}
    begun = time.monotonic()
    (shared,) = ask(Scripted(order, {"finish": True}), shared=[os.fspath(tmp_path)]).shared
    assert time.monotonic() - begun < 5
    assert shared.write_mbytes_per_s.missing.startswith("no answer within 0.2")
    assert shared.trouble == "no node could write there: no (asked: a)"


@pytest.mark.parametrize(
    ("usual", "of_round", "wanted"),
    [(3.0, 20.0, (3.0, 6.0)), (3.0, 5.0, (3.0, 2.0)), (3.0, 2.0, (2.0, 0.0)), (13.0, 13.0, (13.0, 0.0))],
)
def test_a_question_of_a_round_has_spare_time_within_its_round(usual, of_round, wanted):
    """On a busy node; the controller waits no longer than it said."""
    assert tuple(files._patience(usual, of_round).values()) == wanted


def test_a_busy_node_sees_the_token_that_is_there(tmp_path, monkeypatch):
    """What waits for a processor is no folder that does not answer."""
    monkeypatch.setattr(files, "STAT_SECONDS", 0.2)
    monkeypatch.setattr(files, "VISIBLE_SECONDS", 0.0)
    look = files.look_for
    monkeypatch.setattr(files, "look_for", lambda path, token: (spinning(0.5), look(path, token))[1])
    path = os.fspath(tmp_path)
    with open(files.token_file(path, "run", "token"), "w") as file:
        file.write("token")
    (found,) = files.shared_of([path], {path: {"token": "token", "writer": "a"}}, "run", seconds=30.0)
    assert found["trouble"] == ""


def test_what_the_folders_took_of_the_spare_time_the_mounts_have_no_more():
    """So a node on which all hangs is no longer waited for than before."""
    assert [files._rest(6.0, taken) for taken in (0.1, 3.0, 5.0, 9.0, 20.0)] == [6.0, 6.0, 4.0, 0.0, 0.0]


def test_what_an_earlier_run_left_is_told(tmp_path):
    """By its name."""
    (tmp_path / ".preflight-old").touch()
    path = os.fspath(tmp_path)
    (shared,) = ask(Scripted({"read": {}, **SOON}, {"finish": True}), shared=[path]).shared
    assert shared.leftovers == (f"{path}/.preflight-old",)
    assert (shared.trouble, shared.writer) == ("no node could write there", "")


def test_a_path_that_is_not_there_cannot_be_written_to():
    """The reason goes back to the controller, which asks the next node."""
    channel = Scripted({"write": {"/nonexistent": "t"}, **SOON}, {"finish": True})
    told = ask(channel, shared=["/nonexistent"])
    assert channel.events[1] == {"written": {"/nonexistent": "No such file or directory"}}
    assert told.places[2].trouble == "No such file or directory"


def test_a_folder_that_is_not_there_is_not_waited_for():
    """Another node's token is not looked for where nothing can be, and a checkpoint's folder is called one."""
    order = {"read": {"/nonexistent": {"token": "secret", "writer": "node1"}}, **SOON}
    begun = time.monotonic()
    told = ask(Scripted(order, {"finish": True}), shared=["/nonexistent"], checkpoint="/nonexistent")
    assert time.monotonic() - begun < files.VISIBLE_SECONDS / 2
    assert told.shared[0].trouble == "there is no such folder"
    assert [place.purpose for place in told.places][2:] == ["--checkpoint-dir"]


def test_what_cannot_be_read_has_no_digest():
    """A missing path is missing on this node, with the reason."""
    (same,) = ask(Scripted(), same=["/nonexistent"]).same
    assert same.digest.missing == "No such file or directory"


def test_named_paths_are_looked_at_and_not_read(tmp_path):
    """There, or why not; the facts are those that the controller decodes."""
    told = files.named([str(tmp_path), str(tmp_path / "none")])
    assert [(one["path"], one["trouble"]) for one in told] == [
        (str(tmp_path), ""),
        (str(tmp_path / "none"), "No such file or directory"),
    ]
    assert len(msgspec.convert(told, tuple[Named, ...])) == 2
