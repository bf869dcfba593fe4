"""Was everything filled in that has to be real: account, partition, folders, programs, images?"""

from __future__ import annotations

import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Sourced, words
from preflight.launch.plan import LaunchFiles, Plan, ScriptFile, fail, warn
from preflight.launch.slips.holes import is_unfilled_name, is_unfilled_path
from preflight.launch.text.marks import is_known
from preflight.said import said

DIRECTIVE = re.compile(
    r"#(?P<system>SBATCH|PBS|BSUB|FLUX:?|OAR|PJM|\$)\s+(?P<option>--?[A-Za-z][\w-]*)(?:\s*=\s*|\s+)(?P<value>[^\s#]+)"
)
# What a batch system looks up by its name, and refuses where it knows none such; by its option in any of them.
NAMES = frozenset(words("-A -P -p -q --account --partition --qos --reservation --queue --bank --nodelist -w"))
PATHS = frozenset(words("-o -e -i -D -d -cwd -wd --output --error --input --chdir --container-image"))
MAIL = frozenset(words("-M -u --mail-user"))
# Settings of the launchers that name a file.
FILES = words(
    """
    config_file hostfile deepspeed_hostfile deepspeed_config_file mpirun_hostfile
    deepspeed_config.deepspeed_hostfile deepspeed_config.deepspeed_config_file
    """
)


def directives_are_filled_in(files: LaunchFiles) -> Iterable[Finding]:
    """The scheduler refuses an account or partition that is not there, and opens no log in a folder that is not."""
    for file in dict.fromkeys(script.marks.file for script in files.scripts):
        for number, line in enumerate(files.texts.get(file, "").split("\n"), start=1):
            found = DIRECTIVE.match(line)
            if found is None:
                if line.strip() and not line.startswith("#"):
                    break
                continue
            option, value, where = found["option"], found["value"].strip("\"'"), Where(file, number)
            if "<" in value or ("{" in value and option not in MAIL):  # told with the form of the script
                continue
            fix = said("The value in the place of {value}.", value)
            if option in NAMES and is_unfilled_name(value):
                message = said("{option} {value} was never filled in: the job is refused", option, value)
                yield fail("placeholders_are_filled_in", message, where, fix=fix)
            elif option in PATHS and is_unfilled_path(value):
                message = said("{option} {value} was never filled in: there is no such folder", option, value)
                yield fail("placeholders_are_filled_in", message, where, fix=fix)
            elif option in MAIL and is_unfilled_name(value):
                message = said("{option} {value} was never filled in: nobody gets the mail", option, value)
                yield warn("placeholders_are_filled_in", message, where, fix=fix)


def folders_are_filled_in(script: ScriptFile) -> Iterable[Finding]:
    """`cd` to a folder that is not there fails, and the script goes on where it was."""
    for command in script.commands if script.plans else ():
        named = command.words[1].plain if len(command.words) == 2 and command.words[0].plain in ("cd", "pushd") else ""
        if named and is_known(command.words[1].text) and is_unfilled_path(named):
            message = said("{named} was never filled in: cd fails, and what follows runs elsewhere", named)
            fix = said("The value in the place of {value}.", named)
            yield fail("placeholders_are_filled_in", message, Where(script.marks.file, command.line), fix=fix)


SOURCED = re.compile(r"\s*(?:source|\.)\s+(?P<path>[^\s;&|$\"']+)")


def environments_are_filled_in(files: LaunchFiles) -> Iterable[Finding]:
    """What a script reads its environment from is there: a file that it sources, a module that it loads."""
    for script in files.scripts if files.plans else ():
        file = script.marks.file
        for number, line in enumerate(files.texts.get(file, "").split("\n"), start=1):
            found = SOURCED.match(line)
            if found and is_unfilled_path(found["path"]) and "<" not in found["path"]:
                message = said("{path} was never filled in: there is no such file to read", found["path"])
                yield fail(
                    "placeholders_are_filled_in",
                    message,
                    Where(file, number),
                    fix=said("The value in the place of {value}.", found["path"]),
                )
        for command in script.commands:
            named = [word.plain for word in command.words]
            empty = [word for word in named[2:] if is_unfilled_name(word) and "<" not in word]
            if named[:2] in (["module", "load"], ["module", "add"], ["ml", "load"]) and empty:
                message = said("{name} was never filled in: there is no such module", empty[0])
                fix = said("The value in the place of {value}.", empty[0])
                yield fail("placeholders_are_filled_in", message, Where(file, command.line), fix=fix)


def files_are_filled_in(plan: Plan) -> Iterable[Finding]:
    """The program, the image around it, and the files that its launcher reads are there under their names."""
    named = [("the program", plan.program), *((name, plan.settings.get(name)) for name in FILES)]
    places = {(name, held.value): held.where for name, held in named if isinstance(held, Sourced)}
    around = [word for word in plan.wrapper if "/" in word and is_known(word)]
    places |= {("an option of the container", word): plan.where for word in around}
    for (name, value), where in places.items():
        if isinstance(value, str) and is_unfilled_path(value) and "<" not in value:
            message = said("{name} {value} was never filled in: there is no such file", name, value)
            yield fail(
                "placeholders_are_filled_in", message, where, fix=said("The value in the place of {value}.", value)
            )


PATH = re.compile(r".*/|(?i:path[-_]to[-_])|##")
# Words of a vocabulary stand in angle brackets too, as <image> and <pad>: what is asked for has more than one part.
ASKED = re.compile(r"<(?=[^<>]*[ _-]|your|path)[A-Za-z][\w ./-]*>", re.IGNORECASE)


def arguments_are_filled_in(files: LaunchFiles) -> Iterable[Finding]:
    """What the program is handed is there too: its data, its model, the tokens that it logs in with."""
    for plan in files.plans:
        held = [(one.value.partition("=")[2] or one.value, one) for one in plan.arguments if isinstance(one, Sourced)]
        held += [
            (str(one.value), one)
            for name, one in plan.environment.items()
            if isinstance(one, Sourced) and name != "PWD"
        ]
        empty = {
            value: one.where
            for value, one in held
            if (ASKED.match(value) and not IN_A_TEXT.search(value) and not _is_bare(value, files, plan))
            or (PATH.match(value) and "<" not in value and is_unfilled_path(value))
        }
        if empty:
            message = said("{values} was never filled in: the program gets it as it stands", ", ".join(empty))
            fix = said("The value in the place of {value}.", next(iter(empty)))
            yield warn("placeholders_are_filled_in", message, *empty.values(), fix=fix)


# In a text that another shell or the program reads: <PATH TO vocab.json>. What a script says to people may hold one.
IN_A_TEXT = re.compile(r"(?<!<)<(?:[A-Z]{2,}[ _-]|(?i:your|path|insert|specify)\b)[A-Za-z0-9 _./-]*>")
COMMENT = re.compile(r"\s#.*")
SAYS = re.compile(r"\s*(?:#|echo\b|printf\b|usage\b|die\b|log\w*\b)|.*(?i:usage|example|e\.g\.)|.*\$\{\w+:\?")


def texts_are_filled_in(files: LaunchFiles) -> Iterable[Finding]:
    """A placeholder within quotes is handed on, and a redirection to the shell that runs the text."""
    for script in files.scripts:
        file, found = script.marks.file, dict[str, Where]()
        for number, line in enumerate(files.texts.get(file, "").split("\n"), start=1):
            if not SAYS.match(line):
                code = COMMENT.sub("", line)
                found |= {hole: Where(file, number) for hole in IN_A_TEXT.findall(code) if hole not in found}
        if found and (script.plans or script.slurm):
            message = said("{values} was never filled in: the program gets it as it stands", ", ".join(found))
            fix = said("The value in the place of {value}.", next(iter(found)))
            yield warn("placeholders_are_filled_in", message, *found.values(), fix=fix)


def _is_bare(value: str, files: LaunchFiles, plan: Plan) -> bool:
    """Whether it stands without quotes, where bash takes it for a redirection: told with the form of the script."""
    text = files.texts.get(plan.where.file, "")
    return re.search(rf"[\"'][^\"'\n]*{re.escape(value)}", text) is None


PLAN_RULES = (files_are_filled_in,)
SCRIPT_RULES = (folders_are_filled_in,)
FILES_RULES = (directives_are_filled_in, environments_are_filled_in, arguments_are_filled_in, texts_are_filled_in)
