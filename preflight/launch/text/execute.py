"""What does a simple command do to the walk through a script: a builtin, a function, a script inside its words?"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from preflight.launch.text.expansion import Assigned, Scope
from preflight.launch.text.grammar import parse
from preflight.launch.text.marks import LINE_MARK, UNKNOWN_MARK, Marks, is_firm, is_known, plain
from preflight.launch.text.shell import (
    CONTAINERS,
    NESTING_LIMIT,
    REMOTE,
    SHELLS,
    Command,
    Inner,
    Script,
    Start,
    Word,
    is_container,
)
from preflight.launch.text.syntax import source
from preflight.launch.text.written import named

# They hand a text to a shell: on another node, in a window, for every line of a list.
HANDS_ON = REMOTE | {
    "tmux",
    "screen",
    "xargs",
    "su",
    "gcloud",
    "xpk",
    "parallel",
    "docker",
    "podman",
    "nohup",
    "timeout",
}
BACKGROUND = ("redirected_statement", "pipeline", "list", "negated_command", "compound_statement", "subshell")
RUNS_FILES = SHELLS | {"source", ".", "sbatch", "srun"}
STARTS_MANY = frozenset({"srun", "mpirun", "mpiexec", "mpiexec.hydra", "jsrun", "aprun", "blaunch"})
LEAVING = frozenset(
    {"ssh", "rsh", "pdsh", "clush", "pssh", "pbsdsh", "pbs_tmrsh", "parallel-ssh"}
)  # they take no variables along
JOINED = re.compile(rb"(?:\\\n)+")
LINE_END = re.compile(rb"(?<!\\)\n")
READS_SCRIPT = re.compile(r"\b(bash|sh|zsh)(\s+-s\b.*)?\s*\Z")
SCRIPT_NAME = re.compile(r"[^\s;&|\"'<>()]+\.(?:sh|bash)\b")
PYTHON = re.compile(r"python(\d(\.\d+)?)?")
COUNTS = re.compile(
    r"(?P<after>[A-Za-z_]\w*)\s*(?P<step>\+\+|--)|(?P<ahead>\+\+|--)\s*(?P<before>[A-Za-z_]\w*)"
    r"|(?P<name>[A-Za-z_]\w*)\s*(?P<by>[-+*/%]?=)(?!=)\s*(?P<value>[^=]+)"
)
LAUNCHES = frozenset({"torchrun", "accelerate", "deepspeed"})
WRAPPER = re.compile(r"[\w./-]\.(sh|bash)\Z")
DETACHES = re.compile(r"(^|\s)(nohup|setsid)\b|&\s*[\"']?\s*$")


def command(script: Script, node: Any, depth: int) -> None:
    """A simple command, and the scripts inside its words."""
    del depth
    prefix: dict[str, Assigned] = {}
    alone: list[Any] = []  # assignments that may stand in a line of their own
    words: list[Word] = []
    ended, line = node.start_byte, script.scope.line(node)
    for child in node.named_children:
        between = node.text[ended - node.start_byte : child.start_byte - node.start_byte]
        is_joined = bool(words) and JOINED.fullmatch(between)
        ended = child.end_byte
        if alone and LINE_END.search(between):  # the grammar takes two of them for a part of the next line's command
            for assigned in alone:
                script.assignment(assigned, 0)
            alone, prefix, line = [], {}, script.scope.line(child)
        if child.type == "variable_assignment":
            alone.append(child)
            inner = Script(replace(script.scope, variables={}), script.load, script.handlers, steps=script.steps)
            inner.scope.variables.update(script.scope.variables)
            inner.assignment(child, 0)
            name = source(child).partition("=")[0].rstrip("+")
            prefix[name] = replace(inner.scope.variables.get(name, Assigned(("",), 0)), exported=True)
        elif child.type in ("file_redirect", "heredoc_redirect", "herestring_redirect", "comment"):
            continue
        else:
            alone = []
            target = child.named_children[0] if child.type == "command_name" and child.named_children else child
            found = [Word(text, script.scope.line(child)) for text in script.scope.words(target)]
            if is_joined and found:  # a word goes on in the next line
                found[0] = Word(words[-1].text + found[0].text, words.pop().line)
            words.extend(found)
    if words and words[0].plain == "exit" and _is_reached(script, node):
        script.ended = script.scope.line(node)
    elif words:
        near = (node, node.parent, node.next_sibling, node.prev_sibling)
        torn = any(found is not None and found.type == "ERROR" for found in near) or node.has_error
        execute(script, tuple(words), line, prefix, is_torn=torn, in_background=is_background(node))


def _is_reached(script: Script, node: Any) -> bool:
    """Whether a command stands by itself in the script, where nothing decides if it runs."""
    alone = node.parent is not None and node.parent.type == "program" and not script.conditions
    return alone and not script.nesting and not is_background(node)


def is_background(node: Any) -> bool:
    """Whether the shell goes on without waiting for a command."""
    while node is not None:
        following = node.next_sibling
        if following is not None and (following.type == "&" or _is_behind_a_mark(following)):
            return True
        node = node.parent if node.parent is not None and node.parent.type in BACKGROUND else None
    return False


def _is_behind_a_mark(following: Any) -> bool:
    """Whether the & stands between the mark of a here-document and its text: ``ssh host bash <<EOF &``."""
    is_document = following.type == "heredoc_redirect"
    return is_document and any(child.type == "ERROR" and source(child).strip() == "&" for child in following.children)


def execute(
    script: Script,
    words: tuple[Word, ...],
    line: int,
    prefix: Mapping[str, Assigned],
    *,
    is_torn: bool = False,
    in_background: bool = False,
) -> None:
    """A builtin changes the walk, a function of the script is walked, any other command is noted."""
    name = words[0].plain
    rest = [word.text for word in words[1:]]
    if name not in script.functions and not REMOTE & set(script.outer):
        script.files.hear(name, rest, line, surely=not script.conditions)
    if name in ("source", ".") and rest and named(plain(rest[0])) not in script.written:
        sourced(script, plain(rest[0]), line)
    elif name == "let":
        for text in rest:
            calculate(script, text, line)
    elif name == "eval":
        script.nested(" ".join(rest), line, script.outer, script.scope)
    elif name in script.functions and script.nesting < NESTING_LIMIT:
        scope = replace(script.scope, arguments=tuple(rest))
        child = script.child(scope, script.outer)
        child.in_background = script.in_background or in_background
        child.is_function = True
        child.run(script.functions[name])
        child.leave()
    elif name == "shift" and script.scope.arguments is not None:
        count = int(plain(rest[0])) if rest and plain(rest[0]).isdigit() and len(rest[0]) < 5 else 1
        script.scope.arguments = script.scope.arguments[count:]
    elif name == "set" and rest[:1] == ["--"]:
        script.scope.arguments = tuple(rest[1:])
    elif name == "set" and (signs := exporting_signs(rest)):
        script.scope.exports_all = signs[-1] == "-"
    else:
        if name in ("cd", "pushd"):
            go_to(script, rest, line)
        prefix = {**prefix, **wrapped(script, words, line)}
        _note(script, words, line, prefix, is_torn=is_torn, in_background=in_background)


def exporting_signs(words: Sequence[str]) -> str:
    """Do options of `set` export all variables from there, or no more? In order: ``-ea +o allexport`` are ``-+``."""
    named = (word[0] for word, name in itertools.pairwise(words) if word[-1:] == "o" and name == "allexport")
    return "".join([*(word[0] for word in words if word[:1] in ("-", "+") and "a" in word), *named])


def _note(
    script: Script,
    words: tuple[Word, ...],
    line: int,
    prefix: Mapping[str, Assigned],
    *,
    is_torn: bool,
    in_background: bool,
) -> None:
    """Note a command as it stands now, then the commands that it starts itself."""
    in_background = script.in_background or in_background
    script.commands.append(
        Command(
            words,
            line,
            dict(script.scope.variables),
            prefix,
            script.outer,
            script.conditions > 0,
            script.scope.per_node,
            is_torn or script.is_torn,
            script.loop,
            in_background,
        )
    )
    before, script.in_background = script.in_background, in_background
    place = len(script.commands) - 1
    if inside(script, words, prefix):
        script.commands[place] = replace(script.commands[place], is_opened=True)
    script.in_background = before


def sourced(script: Script, path: str, line: int) -> None:
    """Another file, walked with the variables and functions of this one; nothing where it is not given."""
    found = script.load(path) if script.nesting < NESTING_LIMIT else None
    if found is None and is_firm(path):
        script.unread.append((path, line))
    if found is not None:
        here, path, before = script.scope, named(path), dict(script.scope.variables)
        inner = Scope(Marks(path, here.marks.unknowns), 1, here.variables, None, here.per_node, here.in_container)
        inner.load, inner.letters, inner.exports_all = here.load, here.letters, here.exports_all
        Script(
            inner,
            script.load,
            script.handlers,
            [],
            script.functions,
            files=script.files,
            nesting=script.nesting + 1,
            steps=script.steps,
            unread=script.unread,
        ).run(parse(found))
        here.exports_all = inner.exports_all
        for name, held in here.variables.items():
            if held is not before.get(name) and not held.file:
                here.variables[name] = replace(held, file=path)


def calculate(script: Script, text: str, line: int) -> None:
    """What ``((rank++))`` and ``let rank+=1`` set."""
    for part in plain(text).split(","):
        found = COUNTS.fullmatch(part.strip())
        if found is None:
            continue
        name, sign = found["after"] or found["before"] or found["name"], found["step"] or found["ahead"] or found["by"]
        value = f"({found['value']})" if found["value"] else "1"
        amount = f"{name}{sign[0]}{value}" if sign and sign != "=" else value
        inner = script.child(replace(script.scope, first_line=line, places=()), script.outer)
        inner.run(parse(f"{name}=$(({amount}))"))


def wrapped(script: Script, words: tuple[Word, ...], line: int) -> dict[str, Assigned]:
    """What a script in front of a command exports for it: ``srun ./wrap.sh python train.py``, which ends in "$@"."""
    place = next((at for at, word in enumerate(words[:-1]) if at and WRAPPER.search(word.plain)), 0)
    around = {word.plain.rpartition("/")[2] for word in words[:place]}
    if not place or not around & STARTS_MANY or script.nesting >= NESTING_LIMIT:
        return {}
    found = script.load(words[place].plain)
    if found is None:
        return {}
    behind, here = tuple(word.text for word in words[place + 1 :]), script.scope
    scope = replace(here, variables={**here.of_a_child()}, arguments=behind, first_line=1, places=(), per_node=True)
    inner = Script(scope, script.load, script.handlers, nesting=script.nesting + 1, steps=script.steps)
    inner.run(parse(found))
    started = [one for one in inner.commands if tuple(word.text for word in one.words[-len(behind) :]) == behind]
    if not started or started[-1].is_conditional:
        return {}
    before = here.variables
    return {
        name: replace(held, line=line)
        for name, held in {**started[-1].variables, **started[-1].prefix}.items()
        if held.exported and (name not in before or before[name].texts != held.texts)
    }


def go_to(script: Script, words: list[str], line: int) -> None:
    """`cd` sets PWD, where the folder is one that the script tells in full."""
    folder = next((text for text in words if not plain(text).startswith("-")), "")
    held = script.scope.held("PWD")
    path = posixpath.normpath(posixpath.join(held.text if held else "", plain(folder)))
    if folder and is_firm(folder) and path.startswith("/") and (held is None or is_firm(held.text)):
        script.scope.assign("PWD", [path], line, exported=True)
    else:
        script.scope.variables.pop("PWD", None)


def inside(script: Script, words: tuple[Word, ...], prefix: Mapping[str, Assigned]) -> bool:
    """Walk ``bash -c "..."``, ``ssh host "..."``, ``bash FILE`` of a file that the script wrote; whether it is one."""
    names = [word.plain.rpartition("/")[2] for word in words]
    for place, name in enumerate(names[:-1]):
        if name not in SHELLS:
            continue
        outer = (*script.outer, *(word.plain for word in words[: place + 1]))
        is_remote = bool(REMOTE & set(names[:place]))
        known = {**script.scope.of_a_child(is_remote=is_remote), **prefix}
        scope = replace(script.scope, variables=_in_container(words[:place], known))
        scope.in_container = script.scope.in_container or is_container(outer)
        scope.per_node = script.scope.per_node or is_remote
        at = place + 1
        while at < len(words) - 1 and names[at].startswith("-") and "c" not in names[at].lstrip("-"):
            at += 1
        if names[at].startswith("-") and "c" in names[at] and at + 1 < len(words):
            arguments = tuple(word.text for word in words[at + 3 :])
            scope.arguments = arguments or scope.arguments
            script.nested(words[at + 1].text, words[at + 1].line, outer, scope)
            return True
    file = next((word.plain for word in words if named(word.plain) in script.written), "")
    if file and (words[0].plain == file or RUNS_FILES & set(names)):
        outer = (*script.outer, *(word.plain for word in words if word.plain != file))
        everywhere = script.scope.per_node or bool(REMOTE & set(names))
        script.nested_in(script.written[named(file)], outer, replace(script.scope, per_node=everywhere))
        if "sbatch" in names:
            script.batches.append(script.written[named(file)])
        return True
    if starts(script, words, prefix):
        return False
    starters = [place for place, name in enumerate(names) if name in HANDS_ON]
    is_opened = False
    if not starters:
        return False
    for place, word in enumerate(words):
        text = re.sub(r"^--command=", "", word.plain)
        if place > starters[0] and " " in text and _is_worth_reading(script, text):
            scope = script.scope
            if REMOTE & set(names):
                there = {name: replace(held, is_hidden=True) for name, held in scope.variables.items()}
                scope = replace(scope, variables=there if LEAVING & set(names) else {}, per_node=True)
            outer = (*script.outer, *(before.plain for before in words[:place]))
            before, script.in_background = script.in_background, script.in_background or detaches(words)
            command = re.sub(r"^--command=", "", word.text)
            if "pdsh" in names:  # it puts the number and the name of the host there
                for letters in ("%n", "%h"):
                    command = command.replace(letters, script.scope.marks.unknown(letters, word.line))
            for letters in items(names):
                command = command.replace(letters, script.scope.marks.unknown(letters, word.line))
            script.nested(command, word.line, outer, scope)
            script.in_background = before
            is_opened = True
    return is_opened


def items(names: Sequence[str]) -> tuple[str, ...]:
    """What stands for an item of a list in the text that xargs or parallel hands on: ``xargs -I{}``, ``{#}``."""
    if "parallel" in names:
        return ("{}", "{#}", "{%}", "{1}", "{2}")
    if "xargs" not in names:
        return ()
    behind = names[names.index("xargs") + 1 :]
    given = [word[2:] or after for word, after in zip(behind, [*behind[1:], ""], strict=True) if word.startswith("-I")]
    return tuple(letters for letters in given[:1] if letters)


def _in_container(before: tuple[Word, ...], held: dict[str, Assigned]) -> dict[str, Assigned]:
    """The variables of these that a shell sees where `docker run` starts it: those that -e names."""
    words = [word.plain for word in before]
    names = {word.rpartition("/")[2] for word in words}
    if not names & {"docker", "podman", "nvidia-docker"} or not names & {"run", "exec"} or "--env-file" in words:
        return held
    if not all(map(is_known, words)):
        return held
    pairs = itertools.pairwise(words)
    handed = {value for option, value in pairs if option in ("-e", "--env")}
    handed |= {word.partition("=")[2] for word in words if word.startswith("--env=")}
    # what is exported outside for NCCL and Gloo is judged where the container is
    return {name: one for name, one in held.items() if name in handed or name.startswith(("NCCL_", "GLOO_"))}


def _is_worth_reading(script: Script, text: str) -> bool:
    """Whether a text for another shell holds a launcher, or starts a script that is given."""
    if any(known in text for known in script.launch_words):
        return True
    if script.stdin and READS_SCRIPT.search(text):
        return True
    return any(script.load(inside_here(found)) is not None for found in SCRIPT_NAME.findall(text)[:4])


def inside_here(path: str) -> str:
    """A path without its unknown folders: ``$PWD/node.sh``."""
    return named(plain(UNKNOWN_MARK.split(path)[-1].lstrip("/") if not is_known(path) else path))


def starts(script: Script, words: tuple[Word, ...], prefix: Mapping[str, Assigned]) -> bool:
    """Note a script in a file that a command starts, with its arguments: ``srun bash node.sh 2``; whether it is one."""
    names = [word.plain.rpartition("/")[2] for word in words]
    shell = next((place for place, name in enumerate(names) if name in SHELLS), None)
    if shell is None:
        place = next((at for at, word in enumerate(words) if SCRIPT_NAME.fullmatch(word.plain)), None)
        if place is None or (place and not set(names[:place]) & (REMOTE | CONTAINERS)):
            return False
    else:
        place = shell + 1
        while place < len(words) and names[place].startswith("-") and not names[place].startswith("--"):
            if "c" in names[place]:
                return False
            place += 1
        place += names[place : place + 1] == ["--"]
    reads_stdin = bool(script.stdin) and (place >= len(words) or "-s" in names[shell or 0 : place])
    if not reads_stdin and (place >= len(words) or "sbatch" in names[:place] or names[place] in SHELLS):
        return False
    path = script.stdin if reads_stdin else words[place].text
    behind = words[place:] if reads_stdin else words[place + 1 :]
    is_wrapper = any(PYTHON.fullmatch(word.plain.rpartition("/")[2]) or word.plain in LAUNCHES for word in behind[:2])
    if is_wrapper or script.load(inside_here(path)) is None:
        return False
    around = (*script.outer, *(word.plain for word in words[:place]))
    is_remote = bool(REMOTE & set(names[:place]))
    leaves = {word.rpartition("/")[2] for word in around} & LEAVING
    here = script.scope
    variables = {} if leaves else {**here.of_a_child(is_remote=is_remote), **prefix}
    note = Start(
        inside_here(path),
        tuple(LINE_MARK.sub("", word.text) for word in behind),
        {name: held if held.file else replace(held, file=here.marks.file) for name, held in variables.items()},
        around,
        here.per_node or is_remote,
        words[min(place, len(words) - 1)].line,
        script.loop,
        script.in_background,
        script.conditions > 0,
    )
    script.starts.append(note)
    return True


def detaches(words: tuple[Word, ...]) -> bool:
    """Whether a command that hands a text on comes back before what the text starts has ended."""
    names = {word.plain for word in words}
    letters = {"-f", "-fn", "-nf"} if "ssh" in names else set()  # pdsh counts with -f how many at once
    return bool(DETACHES.search(words[-1].plain) or ({"tmux", "screen", "-d"} | letters) & names)


def document(script: Script, node: Any) -> Inner | None:
    """The text of a here-document or of what `echo` and `printf` write; None where it is none."""
    for child in node.named_children:
        if child.type == "heredoc_redirect":
            parts = {part.type: part for part in child.named_children}
            if "heredoc_body" in parts and "heredoc_start" in parts:
                body = parts["heredoc_body"]
                is_quoted = source(parts["heredoc_start"])[:1] in "'\"\\"
                return Inner(source(body), script.scope.line(body), is_quoted, body)
    return None


def target(script: Script, node: Any, signs: Sequence[str] = (">", ">|", "&>")) -> str:
    """The file that a command writes to by one of these signs, "" where it writes none that is known."""
    for child in node.named_children:
        if child.type == "heredoc_redirect":
            found = target(script, child, signs)
            if found:
                return found
        if child.type == "file_redirect" and any(part.type in signs for part in child.children):
            text = script.scope.text(child.named_children[-1])
            return plain(text) if is_known(text) else ""
    return ""
