"""How do all tests run on all cores? In forks of the process that has collected them.

pytest-xdist collects once in each worker and sends four messages for each test, which takes longer than most tests do.
Here forks take one file after the other, or one test where each takes long, and tell of all of them at once:
`workers.choose` says when.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from _pytest.reports import TestReport
from _pytest.runner import CallInfo

if TYPE_CHECKING:
    import pytest

MOMENT_SECONDS = 0.1
TICKET_BYTES = 4
LENGTH_BYTES = 8
DONE = bytes(LENGTH_BYTES)  # a message of no length: nothing is left
TEARDOWN_SECONDS = 30.0  # for what a fork has prepared, a lab for one, where a run is stopped


def says_little(when: str, outcome: str, duration: float) -> bool:
    """What came before or after a test, went well and took no time: two thirds of all reports."""
    return when != "call" and outcome == "passed" and duration < MOMENT_SECONDS


class Recorder:
    """A plugin that keeps what is reported of tests."""

    def __init__(self) -> None:
        self.reports: list[Any] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep it, unless it says little."""
        if not says_little(report.when, report.outcome, report.duration):
            self.reports.append(report)


def run(session: pytest.Session, forks: int, begin: Callable[[], None], share: Callable[[str], str]) -> None:
    """Run all tests of a session; `begin` is called in each fork, and tests of one `share` stay together.

    Raises RuntimeError where a fork was killed.
    """
    shares: dict[str, list[pytest.Item]] = {}
    for item in session.items:
        shares.setdefault(share(item.nodeid), []).append(item)
    files = list(shares.values())
    tickets, written = os.pipe()
    os.write(written, b"".join(number.to_bytes(TICKET_BYTES, "big") for number in range(len(files))))
    os.close(written)
    children: dict[int, int] = {}  # what it says -> its pid
    folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    for number in range(min(forks, len(files))):
        said, saying = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(said)
            own = folder / f"fork{number}"
            own.mkdir(mode=0o700)
            session.config._tmp_path_factory._basetemp = own  # type: ignore[attr-defined]
            _play(session, files, tickets, saying, begin)
        os.close(saying)
        children[said] = pid
    os.close(tickets)
    try:
        _listen(session, files, children)
    finally:
        _end(children)


def _end(children: dict[int, int]) -> None:
    """Let the forks that are left tear down what they have prepared, and end."""
    for pid in children.values():
        os.kill(pid, signal.SIGINT)
    until = time.monotonic() + TEARDOWN_SECONDS
    for said in children:
        while select.select([said], [], [], max(0.0, until - time.monotonic()))[0] and os.read(said, 1 << 16):
            pass
    for said, pid in children.items():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(said)


def _play(
    session: pytest.Session,
    files: Sequence[Sequence[pytest.Item]],
    tickets: int,
    saying: int,
    begin: Callable[[], None],
) -> None:
    """What a fork does until nothing is left; it does not come back."""
    config = session.config
    try:
        begin()
        plugins, recorder = config.pluginmanager, Recorder()
        capture: Any = plugins.get_plugin("capturemanager")
        capture.stop_global_capturing()  # its files would be those of the other forks too
        capture.start_global_capturing()
        plugins.unregister(name="terminalreporter")
        plugins.register(recorder)
        numbers = _numbers(tickets)
        number = next(numbers, None)
        while number is not None:
            items = files[number]
            for item, later in zip(items, (*items[1:], items[-1].parent), strict=True):
                config.hook.pytest_runtest_protocol(item=item, nextitem=later)
            following = next(numbers, None)  # not before: another fork may be free by now
            later = files[following][0] if following is not None else None
            ended = CallInfo.from_call(partial(session._setupstate.teardown_exact, later), "teardown")
            if ended.excinfo is not None:
                recorder.reports.append(TestReport.from_item_and_call(items[-1], ended))
            told = [config.hook.pytest_report_to_serializable(config=config, report=one) for one in recorder.reports]
            recorder.reports.clear()
            message = json.dumps([number, told]).encode()
            _write(saying, len(message).to_bytes(LENGTH_BYTES, "big") + message)
            number = following
        _write(saying, DONE)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        session._setupstate.teardown_exact(None)  # a lab for one
    finally:
        os._exit(1)  # the code says nothing: tests play with what a process leaves with


def _numbers(tickets: int) -> Iterator[int]:
    """What is left, each for one fork alone."""
    while ticket := os.read(tickets, TICKET_BYTES):
        yield int.from_bytes(ticket, "big")


def _write(descriptor: int, text: bytes) -> None:
    while text:
        text = text[os.write(descriptor, text) :]


def _listen(session: pytest.Session, files: Sequence[Sequence[pytest.Item]], children: dict[int, int]) -> None:
    """Report what forks say, file by file, until all have ended. Raises what pytest raises after enough failures."""
    config, buffers = session.config, dict.fromkeys(children, b"")
    while children:
        for said in select.select(list(children), [], [])[0]:
            piece = os.read(said, 1 << 16)
            buffers[said] += piece
            while len(buffers[said]) >= LENGTH_BYTES:
                end = LENGTH_BYTES + int.from_bytes(buffers[said][:LENGTH_BYTES], "big")
                if len(buffers[said]) < end or buffers[said] == DONE:
                    break
                number, told = json.loads(buffers[said][LENGTH_BYTES:end])
                buffers[said] = buffers[said][end:]
                first = files[number][0]
                config.hook.pytest_runtest_logstart(nodeid=first.nodeid, location=first.location)
                for data in told:
                    report = config.hook.pytest_report_from_serializable(config=config, data=data)
                    config.hook.pytest_runtest_logreport(report=report)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
            if not piece:
                _, status = os.waitpid(children.pop(said), 0)
                os.close(said)
                if buffers[said] != DONE:
                    raise RuntimeError(f"a process that ran tests ended with {os.waitstatus_to_exitcode(status)}")
