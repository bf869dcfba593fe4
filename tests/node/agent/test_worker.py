"""Does the process of one call answer once, bounded, and with nothing of the keeper's?"""

from __future__ import annotations

from importlib import import_module

import pytest

from preflight.node.agent.worker import CALLS, outcome
from tests.node.memory_channel import MemoryChannel
from tests.node.wire import job, opened


def test_a_call_gives_its_result_or_the_error_of_its_code():
    """An error is an answer about this node too: one line with its kind, and no traceback."""
    channel = MemoryChannel()
    found = outcome({"name": "free_port", "arguments": {"address": "127.0.0.1"}}, channel)
    assert 0 < found["result"]["port"] < 65536
    assert outcome({"name": "free_port", "arguments": {}}, channel) == {"error": "KeyError: 'address'"}


@pytest.mark.parametrize("message", [{"name": "os"}, {"name": "../keeper"}, {"name": ""}, {}, {"name": "facts"}])
def test_only_what_is_listed_can_be_asked(message):
    """No other module is imported, whatever the controller names; without arguments nothing is run."""
    assert outcome(message, MemoryChannel())["error"].startswith("KeyError")


@pytest.mark.parametrize(("name", "module"), CALLS.items())
def test_every_call_has_a_module_that_answers(name, module):
    """One function of arguments and channel."""
    run = import_module(f"preflight.node.calls.{module}").run
    assert run.__code__.co_argcount == 2, name


def test_a_print_of_a_call_is_no_frame():
    """Standard output belongs to the frames: what a call's code prints comes out as errors for people."""
    body = "os.system('echo shell'); print('print', flush=True)"
    code = f"import os\ndef run(arguments, channel):\n    {body}\n    return {{}}\n"
    with opened(code=code) as wire:
        wire.call(1, "free_port", {})
        assert wire.outcome(1)[1]["result"] == {}
        assert wire.errors() == "shell\nprint\n"
        assert wire.decoder.noise == b""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("os._exit(0)", "the call's process ended without a result"),
        ("os.write(channel.up, channel.marker + b' x' * 14)", "header is not three numbers"),
        ("return {'figure': float('nan')}", "the call's process ended without a result"),
        ("raise OSError(5, 'no luck')", "OSError: [Errno 5] no luck"),
        ("raise SystemExit(0)", "the call's process ended without a result"),
        ("return 1 / 0", "ZeroDivisionError: division by zero"),
        ("os.close(channel.up)", "the call's process ended without a result"),
    ],
)
def test_whatever_a_call_does_it_ends_and_the_keeper_stays(body, words):
    """Every call gets exactly one end, and the next call is served."""
    with opened(code=f"import os\ndef run(arguments, channel):\n    {body}\n") as wire:
        wire.call(1, "free_port", {})
        events, ending = wire.outcome(1)
        assert events == []
        assert words in ending["error"]
        wire.call(2, "ranks", job("print('next')"))
        assert wire.outcome(2)[0][0]["log"] == "next\n"
        assert not wire.waiting


def test_a_call_holds_nothing_of_the_keepers():
    """Its input is empty, and the lock, the connection and the pipes of other calls are closed in it."""
    code = """
import os, sys
def run(arguments, channel):
    mine = {0, 1, 2, channel.up, channel.down}
    told = {}
    for entry in os.listdir("/proc/self/fd"):
        if int(entry) not in mine and os.path.exists("/proc/self/fd/" + entry):
            told[entry] = os.readlink("/proc/self/fd/" + entry)
    return {"others": told, "input": os.read(0, 10).decode()}
"""
    with opened(code=code) as wire:
        wire.call(1, "ranks", job("import time; time.sleep(2)"))
        wire.call(2, "free_port", {})
        result = wire.outcome(2)[1]["result"]
        assert result["input"] == ""
        assert all(target.startswith("/proc/") for target in result["others"].values()), result
