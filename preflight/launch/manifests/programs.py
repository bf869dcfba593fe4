"""Which commands does a container of a manifest run, with which variables, and is its script one for bash?"""

from __future__ import annotations

import re
from dataclasses import replace

from preflight.judge.ledger.findings import Finding
from preflight.launch.launchers import first_words
from preflight.launch.text import form, grammar
from preflight.launch.text.expansion import Assigned
from preflight.launch.text.located import Located
from preflight.launch.text.marks import Marks, plain
from preflight.launch.text.shell import SHELLS, Command, Word
from preflight.launch.text.statements import read_script
from preflight.said import said

REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_]\w*)\)")


def mounted(documents: list[Located]) -> list[Located]:
    """The documents with the scripts of ConfigMaps among them in the places of the paths under which pods run them."""
    maps: dict[str, Located] = {}
    for document in documents:
        kind, name, data = document.get("kind"), document.get("metadata", "name"), document.get("data")
        if kind is not None and kind.value == "ConfigMap" and name is not None and data is not None:
            maps[str(name.value)] = data
    return [_with_scripts(document, maps) for document in documents] if maps else documents


def _with_scripts(held: Located, maps: dict[str, Located]) -> Located:
    if isinstance(held.value, list):
        return replace(held, value=[_with_scripts(inner, maps) for inner in held.value])
    if not isinstance(held.value, dict):
        return held
    entries = {name: _with_scripts(inner, maps) for name, inner in held.items()}
    containers = held.get("containers")
    if containers is not None:
        volumes = held.get("volumes")
        named = {
            str(name.value): volume for volume in (volumes.each() if volumes else ()) if (name := volume.get("name"))
        }
        entries["containers"] = replace(containers, value=[_running(one, named, maps) for one in containers.each()])
    return replace(held, value=entries)


def _running(container: Located, volumes: dict[str, Located], maps: dict[str, Located]) -> Located:
    """The container with the text of a mounted script behind `bash -c`, where it runs one."""
    files: dict[str, Located] = {}
    mounts = container.get("volumeMounts")
    for mount in mounts.each() if mounts else ():
        name, path, part = mount.get("name"), mount.get("mountPath"), mount.get("subPath")
        volume = volumes.get(str(name.value)) if name is not None else None
        source = volume.get("configMap", "name") if volume is not None else None
        data = maps.get(str(source.value)) if source is not None else None
        for key, text in data.items() if data is not None and path is not None else ():
            at = str(path.value) if path is not None else ""
            if part is None or part.value == key:
                files[at if part is not None else f"{at.rstrip('/')}/{key}"] = text
    words = [word for part in ("command", "args") if (given := container.get(part)) for word in given.each()]
    place = next((at for at, word in enumerate(words[:2]) if word.text in files), None)
    if place is None or (place == 1 and words[0].text.rpartition("/")[2] not in SHELLS):
        return container
    line, text = words[0].line, files[words[place].text]
    shell = [Located(word, line, word) for word in (words[0].text if place else "bash", "-c")]
    kept = {name: held for name, held in container.items() if name != "args"}
    return replace(container, value={**kept, "command": Located([*shell, text], line)})


def program_of(
    container: Located, marks: Marks, file: str, operator: tuple[str, ...]
) -> tuple[list[Command], list[Finding]]:
    """The commands of a container: its words, or the script that a shell among them reads; and what is wrong with it.

    Variables that `operator` names are set by what starts the container, and unknown here.
    """
    variables = {
        name: Assigned((marks.unknown(f"${name}", container.line),), container.line, True) for name in operator
    }
    env = container.get("env")
    for entry in env.each() if env else []:
        name, value = entry.get("name"), entry.get("value")
        if name is not None:
            text = (
                str(value.text)
                if value is not None
                else marks.unknown(said("valueFrom of {value}", name.value), name.line)
            )
            line = value.line if value is not None else name.line
            variables[str(name.value)] = Assigned((_referred(text, variables, marks, line),), line, True)
    words: list[Word] = []
    for part in ("command", "args"):
        held = container.get(part)
        for item in held.each() if held else []:
            line = item.line + 1 if "\n" in item.text else item.line
            words.append(Word(_referred(item.text, variables, marks, item.line), line))
    if not words:
        return [], []
    names = [word.plain.rpartition("/")[2] for word in words]
    if names[0] in SHELLS:
        for place, option in enumerate(names[1:-1], start=1):
            if option.startswith("-") and "c" in option:
                return _script(words[place + 1], marks, file, variables)
    return [Command(tuple(words), words[0].line, variables, {}, (), False, True)], []


def _script(
    script: Word, marks: Marks, file: str, variables: dict[str, Assigned]
) -> tuple[list[Command], list[Finding]]:
    """The commands of a script in a manifest; its form is judged where it has lines of its own."""
    text, problems = script.text, []
    if "\n" in text.strip():
        above = "\n" * (script.line - 1)
        found = list(form.problems(above + plain(text), file, grammar.read(above + plain(text))))
        meant = form.as_meant(above + text, found)
        text = meant[len(above) :]
        # the lines of the manifest are indented otherwise than the script's
        problems = [replace(finding, edits=()) for finding in found]
    commands = read_script(
        text,
        file,
        per_node=True,
        variables=variables,
        first_line=script.line,
        marks=marks,
        launch_words=first_words(),
    ).commands
    return commands, problems


def _referred(text: str, variables: dict[str, Assigned], marks: Marks, line: int) -> str:
    """Kubernetes' own ``$(NAME)``, and ``$$`` for a dollar; what names no variable is left to the shell: a command."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        held = variables.get(match[1])
        if held is None and match[1].islower():
            return match[0]
        return held.text if held else marks.unknown(match[0], line)

    return REFERENCE.sub(value, text) if len(text) < 200 else text
