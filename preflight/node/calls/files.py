"""Is there room where a job writes, do network file systems answer, and which paths are shared, or equal on all nodes?

``arguments``: ``name`` of this node, ``shared``, ``same`` and ``named`` (paths), ``checkpoint`` (the path of those that
are shared which checkpoints go to), ``digest_seconds`` (for each of ``same``), ``run`` (an id for the token's name).
Events: {"looked": true}, then for each message its answer. Messages: {"write": {path: token}, "seconds"} -> {"written":
{path: why not}}; {"read": {path: {"token", "writer"} or {"refused": why, "asked": node}}, "seconds"} -> {"read": true};
{"finish": true} ends the call. ``seconds`` is what is left for a round.
"""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from preflight.node.agent import within
from preflight.node.agent.missing import missing
from preflight.node.calls.storage import caches, mounts
from preflight.node.calls.storage.digest import digest_of, pointers_under
from preflight.node.subjects.environment import home, job_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from preflight.node.agent.channel import Channel

STAT_SECONDS = 3.0
SPARE_SECONDS = 6.0  # in addition, where a question waits for a processor of a busy node
VISIBLE_SECONDS = 10.0  # how long a token may take to be seen: NFS clients look again after 3 s at the earliest
WRITE_SECONDS = 15.0
WRITE_BYTES = 8 << 20
MARK = ".preflight-"  # how the names of our files begin
ORDER_SECONDS = 90.0


def run(arguments: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Facts of the subject files."""
    shared, same = list(arguments["shared"]), list(arguments["same"])
    written: list[str] = []

    def leave(_number: int, _frame: object) -> NoReturn:
        remove(written)
        os._exit(1)

    signal.signal(signal.SIGTERM, leave)  # the keeper asks before it kills: nothing of ours stays behind
    begun = time.monotonic()
    try:
        facts = {
            "places": places(arguments, shared),
            "caches": caches.caches(job_variables(arguments), home=home()),
            "mounts": mounts.network_mounts(spare_seconds=_rest(SPARE_SECONDS, time.monotonic() - begun)),
            "same": [same_of(path, float(arguments["digest_seconds"])) for path in same],
            "named": named(list(arguments.get("named", ()))),
            "shared": [],
        }
        if not shared:
            return facts
        channel.emit({"looked": True})
        while True:
            order = channel.receive(ORDER_SECONDS)
            if "write" in order:
                names = {path: token_file(path, arguments["run"], token) for path, token in order["write"].items()}
                questions = {path: partial(write, names[path], order["write"][path]) for path in names}
                written += names.values()
                answers = within.ask_each(questions, **_patience(STAT_SECONDS, float(order["seconds"])))
                failed = {
                    path: answer.strerror or str(answer)
                    for path, answer in answers.items()
                    if isinstance(answer, OSError)
                }
                channel.emit({"written": failed})
            elif "read" in order:
                facts["shared"] = shared_of(shared, order["read"], arguments["run"], seconds=float(order["seconds"]))
                channel.emit({"read": True})
            else:
                return facts
    finally:
        remove(written)


def _rest(spare_seconds: float, taken_seconds: float) -> float:
    """What a question that took so long has left of the spare time."""
    return max(0.0, spare_seconds - max(0.0, taken_seconds - STAT_SECONDS))


def _patience(usual_seconds: float, round_seconds: float) -> dict[str, float]:
    """How long a question of a round may take, and how much longer on a busy node: never longer than the round."""
    spare = min(SPARE_SECONDS, max(0.0, round_seconds - usual_seconds))
    return {"seconds": min(usual_seconds, round_seconds), "spare_seconds": spare}


def places(arguments: dict[str, Any], shared: list[str]) -> list[dict[str, Any]]:
    """The folders a job writes to, with the room in them."""
    variables = job_variables(arguments)
    wanted = [
        (home(), "home"),
        (variables.get("TMPDIR", ("/tmp", ""))[0] or "/tmp", "temporary files"),
        *((path, "--checkpoint-dir" if path == arguments.get("checkpoint") else "--shared") for path in shared),
    ]
    questions = {path: partial(room, path) for path, _ in wanted}
    answers = within.ask_each(questions, seconds=STAT_SECONDS, spare_seconds=SPARE_SECONDS)
    nothing = {"is_writable": False, "free_bytes": 0, "free_inodes": missing("not looked at", "absent")}
    found = []
    for path, purpose in wanted:
        answer = answers[path]
        is_silent = isinstance(answer, OSError)
        trouble = (answer.strerror or str(answer)) if is_silent else ""
        found.append({"path": path, "purpose": purpose, "trouble": trouble, **(nothing if is_silent else answer)})
    return found


def room(path: str) -> dict[str, Any]:
    """What statvfs says of a folder."""
    status = os.statvfs(path)
    is_read_only = bool(status.f_flag & os.ST_RDONLY)
    return {
        "may_run": not status.f_flag & os.ST_NOEXEC,
        "is_writable": not is_read_only and os.access(path, os.W_OK | os.X_OK),
        "free_bytes": status.f_frsize * status.f_bavail,
        # btrfs, Lustre and most network file systems report 0 or a meaningless number of inodes.
        "free_inodes": status.f_favail if status.f_files else missing("this file system counts none", "absent"),
    }


def same_of(path: str, seconds: float) -> dict[str, Any]:
    """The digest of what a path holds; reading it may take `seconds`."""
    try:
        digest: dict[str, Any] = within.ask(partial(digest_of, path), seconds=seconds)
    except OSError as error:
        reason = missing(error.strerror or str(error))
        return {"path": path, "digest": reason, "file_count": 0, "bytes": 0, "is_whole": False, "pointers": []}
    return {"path": path, **digest}


def named(paths: list[str]) -> list[dict[str, Any]]:
    """Whether each path is there, and which of its first files git-lfs has yet to fetch."""
    questions = {path: partial(pointers_under, path) for path in paths}
    answers = within.ask_each(questions, seconds=STAT_SECONDS, spare_seconds=SPARE_SECONDS)
    found = []
    for path, answer in answers.items():
        is_silent = isinstance(answer, OSError)
        trouble = (answer.strerror or str(answer)) if is_silent else ""
        found.append({"path": path, "trouble": trouble, "pointers": [] if is_silent else answer})
    return found


def write(path: str, token: str) -> bool:
    """Write a new token of our own; a file that exists already is not ours to touch."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, token.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return True


def token_file(path: str, run: str, token: str) -> str:
    """Where a token lies: no other node of the run writes there."""
    return f"{path}/{MARK}{run}-{token[:8]}"


def shared_of(paths: list[str], orders: dict[str, dict[str, str]], run: str, *, seconds: float) -> list[dict[str, Any]]:
    """Whether each writer's token is here, how long that took, how fast writing is, and what earlier runs left."""
    end = time.monotonic() + seconds
    tokens = {path: order["token"] for path, order in orders.items() if "token" in order}
    questions = {path: partial(look_for, token_file(path, run, token), token) for path, token in tokens.items()}
    looked = within.ask_each(questions, **_patience(VISIBLE_SECONDS + STAT_SECONDS, seconds))
    found = []
    for number, path in enumerate(paths):
        order = orders.get(path, {})
        trouble = "no node could write there"
        if "refused" in order:
            trouble = f"no node could write there: {order['refused']} (asked: {order['asked']})"
        answer = looked.get(path, {"trouble": trouble, "seconds": 0.0})
        if isinstance(answer, OSError):
            answer = {"trouble": answer.strerror or str(answer), "seconds": VISIBLE_SECONDS + STAT_SECONDS}
        share = max(0.0, end - time.monotonic()) / (len(paths) - number)
        found.append({"path": path, "writer": order.get("writer", ""), **answer, **writing(path, run, share)})
    return found


def writing(path: str, run: str, seconds: float) -> dict[str, Any]:
    """How fast writing is there, and what earlier runs left; each asked within a time limit."""
    try:
        left: list[str] = within.ask(partial(leftovers, path, run), seconds=min(STAT_SECONDS, seconds / 2))
        speed: Any = within.ask(partial(write_speed, path), seconds=min(WRITE_SECONDS, seconds / 2))
    except OSError as error:
        speed, left = missing(error.strerror or str(error)), []
    return {"write_mbytes_per_s": speed, "leftovers": left}


def look_for(path: str, token: str) -> dict[str, Any]:
    """Whether the token is read as it was written, and what is wrong if not; a late token is waited for."""
    begun = time.monotonic()
    while True:
        trouble, is_final = read_token(path, token)
        taken = time.monotonic() - begun
        if is_final or taken > VISIBLE_SECONDS:
            return {"trouble": trouble, "seconds": round(taken, 3)}
        time.sleep(0.05)


def read_token(path: str, token: str) -> tuple[str, bool]:
    """What is wrong with the token, and whether waiting for it is pointless."""
    try:
        os.listdir(os.path.dirname(path))  # makes an NFS client look at the folder again
        with open(path, encoding="ascii", errors="replace") as stream:
            if stream.read(4096) == token:
                return "", True
    except FileNotFoundError:
        if not os.path.isdir(os.path.dirname(path)):  # it was looked at before: no folder that is mounted late
            return "there is no such folder", True
        return f"the token did not appear within {VISIBLE_SECONDS:g} s: this node sees another folder", False
    return "the token is there, but its content differs", False


def write_speed(path: str) -> float:
    """MB/s of one write that reaches the disk; the file has no name, so nothing can be left behind."""
    descriptor = nameless(path)
    try:
        data = os.urandom(1 << 20)
        begun = time.monotonic()
        for _ in range(WRITE_BYTES >> 20):
            os.write(descriptor, data)
        os.fsync(descriptor)
        return round(WRITE_BYTES / 1e6 / max(time.monotonic() - begun, 1e-6), 1)
    finally:
        os.close(descriptor)


def nameless(path: str) -> int:
    """A file without a name in a folder; where O_TMPFILE is unknown (NFS), one that loses its name at once."""
    try:
        return os.open(path, os.O_TMPFILE | os.O_WRONLY, 0o600)
    except OSError:
        name = f"{path}/{MARK}speed-{os.getpid()}-{time.monotonic_ns()}"
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(name)
        return descriptor


def leftovers(path: str, run: str) -> list[str]:
    """Tokens of runs that are no longer there."""
    names = (name for name in os.listdir(path) if name.startswith(MARK) and not name.startswith(f"{MARK}{run}"))
    return sorted(f"{path}/{name}" for name in names)[:16]


def remove(paths: list[str]) -> None:
    """Remove our tokens; one that was never written is no error."""
    if not paths:
        return
    within.ask_each({path: partial(unlink, path) for path in paths}, seconds=STAT_SECONDS)
    paths.clear()


def unlink(path: str) -> bool:
    """Remove one token."""
    os.unlink(path)
    return True
