"""What do descriptions of containers say: `kubectl describe`, `kubectl get -o json` or yaml, `docker inspect`?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice, product
from typing import Any

import msgspec

Lines = Iterator[tuple[int, bytes]]
MOST_BYTES = 4 << 20
STARTS = (b"{", b"[", b"apiVersion:", b"- apiVersion:")
NAME = re.compile(rb"Name: +([\w.-]{1,253})$")
AFTER_NAME = re.compile(rb"Namespace: +\S")
KILLED = "OOMKilled"
EXIT_CODE = "Exit Code"
MOST_STATES = 100_000


def described(lines: Iterable[tuple[int, bytes]]) -> Lines:
    """The lines; of objects in JSON or YAML the states and events, as `kubectl describe` words them, each with its pod.

    What is none of these stays as it is.
    """
    source = iter(lines)
    first = next(((number, line) for number, line in source if line.strip()), None)
    if first is None:
        return
    if not _is_document(first[1]):
        yield from _with_names(chain([first], source))
        return
    held, size = [first], len(first[1])
    for number, line in source:
        held.append((number, line))
        size += len(line)
        if size > MOST_BYTES:
            break
    else:
        if told := list(_told(held)):
            yield from told
            return
    yield from held
    yield from source


def _is_document(line: bytes) -> bool:
    """Whether a first line begins one: a record of a logger, which is one line, and a list are told by what follows."""
    return line.startswith(STARTS) and (line.rstrip() in {b"{", b"["} or line.startswith((b"apiVersion", b"- apiV")))


def _with_names(lines: Lines) -> Lines:
    """Each line of what `kubectl describe pod` printed gets the pod's name, by which others call it too."""
    name, before = b"", b""
    waiting: tuple[int, bytes] | None = None
    for number, line in lines:
        if waiting is not None:
            name = before if AFTER_NAME.match(line) else name
            yield waiting
            waiting = None
        found = NAME.match(line)
        if found:
            before, waiting = found[1], (number, line)
        else:
            yield number, b"[pod/%b] %b" % (name, line) if name else line
    if waiting is not None:
        yield waiting


def _told(held: list[tuple[int, bytes]]) -> Lines:
    text = b"\n".join(line for _, line in held)
    try:
        document = msgspec.json.decode(text) if text[:1] in b"{[" else _of_yaml(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return
    at = 0
    for name, words, mark in islice(_states(document), MOST_STATES):
        wanted = mark.encode()
        at = next((place for place in range(at, len(held)) if wanted in held[place][1]), at)
        for line in words.splitlines():
            yield held[at][0], f"[pod/{name}] {line}".encode() if name else line.encode()


def _of_yaml(text: bytes) -> Any:
    """What the text holds; None where it is no YAML."""
    import yaml  # 20 ms, for a form that few have

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        return loader.get_single_data()
    except yaml.YAMLError:
        return None
    finally:
        loader.dispose()


def _states(document: Any) -> Iterator[tuple[str, str, str]]:
    """The name of each object, the words of its state, and what stands in the line that says so."""
    whole = document if isinstance(document, list) else [document]
    for given in whole:
        if isinstance(given, dict):
            for one in [given, *_dicts(given, "items")]:
                yield from _of_object(one)


def _of_object(given: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    if state := _dict(given, "State"):
        yield from _of_docker(_text(given, "Name").lstrip("/"), state)
    if given.get("kind") == "Event" and given.get("type") == "Warning":
        about = _text(_dict(given, "involvedObject") or _dict(given, "regarding"), "name")
        words = _text(given, "message") or _text(given, "note")
        yield about, f"Warning  {_text(given, 'reason')}  {words}", "Warning"
    name, status = _text(_dict(given, "metadata"), "name"), _dict(given, "status")
    if reason := _text(status, "reason"):
        yield name, f"{_line('Reason', reason)}\n{_text(status, 'message')}", reason
    for condition in _dicts(status, "conditions"):
        if condition.get("status") == "False" and (reason := _text(condition, "reason")):
            yield name, f"{reason} {_text(condition, 'message')}", reason
    for container in (*_dicts(status, "initContainerStatuses"), *_dicts(status, "containerStatuses")):
        for key, kind in product(("lastState", "state"), ("terminated", "waiting")):
            yield from _of_container(name, _dict(_dict(container, key), kind))


def _line(key: str, value: object) -> str:
    """As `kubectl describe` words it."""
    return f"{key}: {value}"


def _of_docker(name: str, state: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    if state.get(KILLED) is True:
        yield name, _line("Reason", KILLED), KILLED
    if error := _text(state, "Error"):
        yield name, error, '"Error"'
    if code := _number(state, "ExitCode"):
        yield name, _line(EXIT_CODE, code), "ExitCode"


def _of_container(name: str, state: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    reason, code = _text(state, "reason"), _number(state, "exitCode")
    if reason and (code or "exitCode" not in state):
        yield name, _line("Reason", reason), reason
        if message := _text(state, "message"):
            yield name, message, "message"
    if code:
        yield name, _line(EXIT_CODE, code), "exitCode"


def _dict(given: dict[str, Any], key: str) -> dict[str, Any]:
    found = given.get(key)
    return found if isinstance(found, dict) else {}


def _dicts(given: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = given.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _text(given: dict[str, Any], key: str) -> str:
    found = given.get(key)
    return found if isinstance(found, str) else ""


def _number(given: dict[str, Any], key: str) -> int:
    found = given.get(key)
    return found if type(found) is int else 0
