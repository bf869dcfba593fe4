"""How is the house built, by its imports? `python -m tests.house` counts rooms, floors and arrows, and names circles.

A room is a file or folder of preflight/ as `ls` shows it. Its floor is one above the highest room that it imports from;
an arrow goes from a room to each room that it imports. Imports for types alone are none: they are gone at run time.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "preflight"

# Each row may import the rows above it, and itself only within a room.
ORDER = (
    ("said",),
    ("knowledge",),
    ("reach",),
    ("facts",),
    ("judge",),
    ("launch",),
    ("diagnose",),
    ("job", "report"),
    ("run",),
    ("testing",),
    ("cli",),
)
# The same inside the larger rooms.
INSIDE = {
    "facts": (
        ("value", "neighbours", "racks", "once"),
        ("shared", "pci"),
        ("subjects",),
        ("selection",),
        ("fabric",),
        ("node",),
        ("cluster", "versions", "results"),
        ("decode",),
        ("view", "documents"),
    ),
    "diagnose": (
        ("forms", "cause", "prefix", "quiet"),
        ("ends",),
        ("causes", "index", "found"),
        ("recorder", "pace", "seen", "hanging"),
        ("facts", "tracebacks", "read"),
        ("gather", "derived"),
        ("outcome", "unexplained"),
        ("verdict",),
    ),
    "launch": (
        ("field", "job", "layout"),
        ("traits",),
        ("plan",),
        ("text", "address", "seats", "containers"),
        ("launcher",),
        ("launchers",),
        ("owners", "resources", "schedulers", "slips"),
        ("commands", "write"),
        ("manifests",),
        ("reading",),
        ("fixes",),
        ("read",),
        ("rules",),
        ("start", "diff", "cast"),
    ),
    "job": (("options", "ranks"), ("collect", "start"), ("measure",)),
    "judge": (
        ("blame", "ledger", "tables", "unreached", "untouched"),
        ("again", "check", "commands", "settings"),
        ("outcome", "views"),
    ),
    "node": (("agent",), ("sources",), ("subjects",), ("calls",)),
    "reach": (("host", "known"), ("transport",), ("hosts",), ("session",)),
    "run": (
        ("interpreters", "jumps", "moved", "notify", "progress", "recording", "source", "stages", "topology"),
        ("reuse", "turns"),
        ("folder", "jobs", "stored"),
        ("history", "live"),
        ("suite",),
    ),
    "report": (
        ("printable", "files", "plan", "facts", "columns", "language"),
        ("changes",),
        ("document",),
        ("groups", "matrix", "material", "measurements", "json"),
        ("causes", "compare"),
        ("formats", "trend"),
        ("html",),
    ),
}
# They run elsewhere: nothing of ours but their own package, and nobody imports them.
APART = {"node": "preflight.node", "ranks": "preflight.job.ranks"}
DOORS = {"__init__", "__main__"}  # how Python comes in


@cache
def tree(path: Path) -> ast.Module:
    """A file, parsed once."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def statements(path: Path, *, hints: bool = False) -> tuple[ast.AST, ...]:
    """Everything of a file that is there at run time, with `hints` what is there for types alone, too."""
    found: list[ast.AST] = []
    parents: list[ast.AST] = [tree(path)]
    while parents:
        for child in ast.iter_child_nodes(parents.pop()):
            is_typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            if hints or not is_typing:
                found.append(child)
                parents.append(child)
    return tuple(found)


@cache
def imported(path: Path, *, hints: bool = False) -> tuple[str, ...]:
    """Dotted names of the modules that a file imports at run time, functions included; with `hints` for types, too."""
    found: list[str] = []
    for node in statements(path, hints=hints):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            module = str(node.module)
            for alias in node.names:
                inner = ROOT / module.replace(".", "/") / alias.name
                is_module = inner.with_suffix(".py").is_file() or inner.is_dir()
                found.append(f"{module}.{alias.name}" if module.startswith("preflight") and is_module else module)
    return tuple(found)


def sources() -> list[Path]:
    """Every file of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def module_of(path: Path) -> str:
    """The dotted name of a file."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def rooms() -> set[str]:
    """The files and folders of preflight/ that hold code."""
    return {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in sources()} - DOORS


def room_of(module: str, *, folder: str = "") -> str:
    """The room of a dotted name, or with `folder` the one inside that room; "" for the package itself."""
    parts = module.split(".")[2 if folder else 1 :]
    return parts[0] if parts and parts[0] not in DOORS else ""


def apart_of(module: str) -> str:
    """Which of the parts that run elsewhere a dotted name belongs to, or ""."""
    return next((name for name, prefix in APART.items() if f"{module}.".startswith(f"{prefix}.")), "")


def arrows(folder: str = "") -> dict[str, set[str]]:
    """Room -> the rooms that it imports; with `folder` the rooms inside that one."""
    prefix = f"preflight.{folder}." if folder else "preflight."
    found: dict[str, set[str]] = {}
    for path in sources():
        module = module_of(path)
        if not f"{module}.".startswith(prefix) or not room_of(module, folder=folder):
            continue
        here = found.setdefault(room_of(module, folder=folder), set())
        inside = (room_of(other, folder=folder) for other in imported(path) if other.startswith(prefix))
        here |= set(inside) - {room_of(module, folder=folder), ""}
    return found


def upward(order: tuple[tuple[str, ...], ...], drawn: dict[str, set[str]]) -> list[str]:
    """The arrows to the own floor or a higher one."""
    row_of = {name: row for row, names in enumerate(order) for name in names}
    return [
        f"{room} -> {other}"
        for room, others in sorted(drawn.items())
        for other in sorted(others)
        if room in row_of and other in row_of and row_of[other] >= row_of[room]
    ]


def floors(drawn: dict[str, set[str]]) -> dict[str, int]:
    """The floor of every room, counted from 1; for drawings without a circle."""
    found: dict[str, int] = {}

    def floor(room: str) -> int:
        if room not in found:
            found[room] = 1 + max((floor(other) for other in drawn.get(room, ())), default=0)
        return found[room]

    for room in drawn:
        floor(room)
    return found


def circles() -> list[set[str]]:
    """Modules that import each other, by whatever way round, for types alone too."""
    graph = {
        module_of(path): {other for other in imported(path, hints=True) if other.startswith("preflight")}
        for path in sources()
    }

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        open_ends = list(graph[start])
        while open_ends:
            module = open_ends.pop()
            if module not in seen:
                seen.add(module)
                open_ends += graph.get(module, ())
        return seen

    reach = {module: reached(module) for module in graph}
    found: list[set[str]] = []
    for module in sorted(graph):
        circle = {other for other in reach[module] if module in reach.get(other, ())}
        if circle and circle not in found:
            found.append(circle)
    return found


def main() -> None:
    """Print the house, the lowest floor first."""
    drawn = arrows()
    on_floor = floors(drawn)
    for room in sorted(rooms(), key=lambda room: (on_floor.get(room, 1), room)):
        print(f"floor {on_floor.get(room, 1):2}  {room:12} {' '.join(sorted(drawn.get(room, ())))}")
    print(f"{len(rooms())} rooms, {max(on_floor.values())} floors, {sum(map(len, drawn.values()))} arrows")
    print(f"{len(upward(ORDER, drawn))} arrows upward")
    for circle in circles():
        print("circle:", " ".join(sorted(circle)))


if __name__ == "__main__":
    main()
