"""What does the bash of this machine say of a script, and make of a value? It reads them, and runs neither.

It is started with an empty environment, without anybody's start-up files and without a terminal.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

from preflight.said import said

SECONDS = 5.0
TOLD = re.compile(r"(?m)^[^:\n]*: line (?P<line>\d+): (?P<words>.*)$")
OPEN = re.compile(r"warning: here-document at line (?P<line>\d+) delimited by end-of-file \(wanted `(?P<end>.*)'\)")
ASKED_LIMIT = 1 << 12  # letters of an expansion and its value
# Behind the name: a prefix or suffix that goes, a part that is replaced, other letters, a part by its numbers.
PLAIN = r"""(?:[^$`(){}\\"'\n@~]|\\[^\n$`]|"[^"$`\\\n]*"|'[^'$`\n]*')*"""
PURE = re.compile(
    rf"\$\{{[A-Za-z_]\w*(?P<does>(?:%|\#|/|\^|,){PLAIN}|:\s*(?:\d{{1,6}}|\s-\d{{1,6}})(?::\s*\d{{1,6}})?)\}}"
)


@dataclass(frozen=True)
class Verdict:
    """What bash says of a script: the line where it stops and why in its own words, 0 where it reads to the end.

    ``open_documents`` are the lines of here-documents that nothing ends, each with the line that is missing.
    ``unasked`` is why bash did not answer, "" where it did.
    """

    line: int = 0
    words: str = ""
    open_documents: tuple[tuple[int, str], ...] = ()
    unasked: str = ""


def verdict(script: str) -> Verdict:
    """What ``bash -n`` says of a script: it parses, and expands, opens and starts nothing."""
    # it runs no `shopt -s extglob` either, and would take the patterns behind it for errors
    options = ["-O", "extglob", "-n"] if "extglob" in script else ["-n"]
    done = _run(options, {}, script)
    if isinstance(done, str):
        return Verdict(unasked=done)
    told = list(TOLD.finditer(done.stderr.decode("utf-8", "replace")))
    documents = tuple((int(found["line"]), found["end"]) for one in told if (found := OPEN.fullmatch(one["words"])))
    refused = next((one for one in told if not one["words"].startswith("warning: ")), None)
    if done.returncode and refused is None:  # by a signal: too deep for its own parser
        return Verdict(unasked=said("bash ended with {code}", done.returncode))
    if done.returncode and refused is not None:
        return Verdict(int(refused["line"]), refused["words"], documents)
    return Verdict(open_documents=documents)


@functools.cache
def name() -> str:
    """``bash 5.2.15``: who says it."""
    done = _run(["-c", 'printf %s "${BASH_VERSION%%(*}"'], {})
    return "bash" if isinstance(done, str) else f"bash {done.stdout.decode('utf-8', 'replace')}"


def expanded(expression: str, value: str) -> str | None:
    """What bash makes of ``${NAME%%pattern}`` and its like for a value; None elsewhere, or where it is not there.

    Only expansions of one value by literal patterns are asked for: nothing in them runs a command, reads a file or
    names another variable.
    """
    found = PURE.fullmatch(expression)
    if found is None or len(expression) + len(value) > ASKED_LIMIT or "\0" in value:
        return None
    return _asked(found["does"], value)


@functools.lru_cache(maxsize=4096)
def _asked(does: str, value: str) -> str | None:
    done = _run(["-c", f'x=${{V{does}}}; printf %s "$x"'], {"V": value})
    if isinstance(done, str) or done.returncode or done.stderr:
        return None
    return done.stdout.decode("utf-8", "replace")


def _run(words: list[str], variables: dict[str, str], script: str = "") -> subprocess.CompletedProcess[bytes] | str:
    """Bash with these words, a script as its standard input; why not, where it is not there or takes too long."""
    bash = shutil.which("bash")
    if bash is None:
        return "there is no bash on this machine"
    with tempfile.TemporaryFile() as file:  # of a pipe bash reads one letter after the other
        file.write(script.encode("utf-8", "replace"))
        file.seek(0)
        try:
            return subprocess.run(
                [bash, "--norc", "--noprofile", *words],
                stdin=file,
                capture_output=True,
                timeout=SECONDS,
                env={**variables, "LC_ALL": "C.UTF-8"},
                check=False,
            )
        except subprocess.TimeoutExpired:
            return said("bash does not end within {seconds:.0f} s", SECONDS)
        except OSError as error:
            return said("bash does not start: {reason}", error.strerror or "unknown")
