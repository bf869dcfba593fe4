"""Where do Triton, torch and others keep what they compile and download, and what is left there?"""

from __future__ import annotations

import os
import time
from functools import partial

from preflight.node.agent import within
from preflight.node.calls.storage import mounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Variables = Mapping[str, tuple[str, str]]

SECONDS = 3.0
MOST_FOLDERS = 256  # of extensions: a cache that is larger is looked at in part
LOCK = "lock"  # torch.utils.file_baton: whoever finds it waits until it is gone, however long
EXTENSIONS = "torch extensions"
# What it is -> the variables that name the folder and what they leave out, the first that is set; then the default.
# {cache} is XDG_CACHE_HOME.
CACHES: dict[str, tuple[tuple[tuple[str, str], ...], str]] = {
    "Triton": ((("TRITON_CACHE_DIR", ""), ("TRITON_HOME", "/.triton/cache")), "{home}/.triton/cache"),
    "torch.compile": ((("TORCHINDUCTOR_CACHE_DIR", ""),), "{temporary}/torchinductor_{user}"),
    EXTENSIONS: ((("TORCH_EXTENSIONS_DIR", ""),), "{cache}/torch_extensions"),
    "FlashInfer": ((("FLASHINFER_WORKSPACE_BASE", "/.cache/flashinfer"),), "{home}/.cache/flashinfer"),
    "DeepGEMM": ((("DG_JIT_CACHE_DIR", ""), ("DG_CACHE_DIR", "")), "{home}/.deep_gemm"),
    "vLLM": ((("VLLM_CACHE_ROOT", ""),), "{cache}/vllm"),
    "Hugging Face": ((("HF_HOME", ""),), "{cache}/huggingface"),
}


def caches(
    variables: Variables, *, home: str, table: str = "/proc/self/mounts", spare_seconds: float = 0.0
) -> list[dict[str, Any]]:
    """Every cache of CACHES: its file system, the room in it, and what an earlier job left there."""
    with open(table, encoding="utf-8", errors="backslashreplace") as lines:
        mounted = [line.split()[:3] for line in lines]
    wanted = dict(folders(variables, home))
    questions = {what: partial(look, path, mounted, what == EXTENSIONS) for what, path in wanted.items()}
    answers = within.ask_each(questions, seconds=SECONDS, spare_seconds=spare_seconds)
    found = []
    for what, path in wanted.items():
        answer = answers[what]
        held = {"trouble": answer.strerror or str(answer)} if isinstance(answer, OSError) else answer
        found.append({"what": what, "path": path, "variable": CACHES[what][0][0][0], **held})
    return found


def folders(variables: Variables, home: str) -> list[tuple[str, str]]:
    """What is cached, and where; not where the path has a part that only the job's own shell knows."""
    import getpass

    given = {name: value for name, (value, _) in variables.items() if value}
    home = given.get("HOME", home)
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without an account
        user = str(os.getuid())
    parts = {
        "home": home,
        "cache": given.get("XDG_CACHE_HOME", f"{home}/.cache"),
        "temporary": given.get("TMPDIR", "/tmp").rstrip("/"),
        "user": user,
    }
    found = []
    for what, (names, default) in CACHES.items():
        path = next((given[name] + rest for name, rest in names if name in given), default.format(**parts))
        if path.startswith("~/"):
            path = f"{home}/{path[2:]}"
        if path.startswith("/") and "$" not in path:
            found.append((what, path))
    return found


def look(path: str, mounted: list[list[str]], has_extensions: bool) -> dict[str, Any]:
    """What there is to know of a cache: of the folder that it will be made in, where it is not there yet."""
    there = os.path.realpath(path)
    while not os.path.lexists(there) and there != "/":
        there = os.path.dirname(there)
    status, owner = os.statvfs(there), os.stat(there).st_uid
    source, kind = file_system(there, mounted)
    found = {
        "exists": there == os.path.realpath(path),
        "below": there,
        "kind": kind,
        "source": source,
        "is_of_network": kind in mounts.KINDS,
        "owner": owner,
        "is_writable": not status.f_flag & os.ST_RDONLY and os.access(there, os.W_OK | os.X_OK),
        "may_run": not status.f_flag & os.ST_NOEXEC,
        "free_bytes": status.f_frsize * status.f_bavail,
        "locks": [],
        "stale": [],
    }
    if has_extensions and os.path.isdir(path):
        found.update(extensions(path))
    return found


def file_system(path: str, mounted: list[list[str]]) -> tuple[str, str]:
    """Source and kind of the file system that a path is on: of two at one place, the later hides the other."""
    best = ("", "", "")
    for source, mount_point, kind in mounted:
        place = mounts.plain(mount_point)
        if (path == place or path.startswith(f"{place.rstrip('/')}/")) and len(place) >= len(best[0]):
            best = (place, mounts.plain(source), kind)
    return best[1], best[2]


def extensions(path: str) -> dict[str, Any]:
    """The locks in a cache of torch extensions, with the seconds since anything changed there, and what is outdated."""
    now, locks, stale = time.time(), [], []
    for folder in extension_folders(path):
        with os.scandir(folder) as entries:
            files = {entry.name: entry.stat().st_mtime for entry in entries if not entry.is_dir()}
        if LOCK in files:
            # A build that runs writes objects: the lock is as old as the last of them.
            locks.append([f"{folder}/{LOCK}", max(0, int(now - max(files.values())))])
        built = [changed for name, changed in files.items() if name.endswith(".so")]
        if built and (torch := newer_torch(f"{folder}/build.ninja", min(built))):
            stale.append([folder, torch])
    return {"locks": locks, "stale": stale}


def newer_torch(path: str, built: float) -> str:
    """The folder of the torch that a build names, where that torch is gone or was installed since; "" elsewhere."""
    try:
        with open(path, encoding="utf-8", errors="backslashreplace") as file:
            words = file.read(1 << 20).split()
    except OSError:
        return ""
    for word in words:
        folder = word.removesuffix("/include") if word.endswith("/torch/include") else ""
        if folder.startswith("/"):
            try:
                return folder if os.stat(f"{folder}/version.py").st_mtime > built else ""
            except FileNotFoundError:
                return folder
    return ""


def extension_folders(path: str) -> list[str]:
    """The folders of extensions: in the cache itself, or one further down where that is by Python and CUDA."""
    first = subfolders(path)
    return (first + [folder for one in first for folder in subfolders(one)])[:MOST_FOLDERS]


def subfolders(path: str) -> list[str]:
    """The folders in a folder; one that may not be read has none."""
    try:
        with os.scandir(path) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir())[:MOST_FOLDERS]
    except PermissionError:
        return []
