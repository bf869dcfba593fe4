"""What does bash itself make of ``${NAME%%pattern}`` and its like, where the value of NAME is known?

Only expansions of one value and literal patterns are asked for: nothing in them can run a command, read a file or name
another variable.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess

TEXT_LIMIT = 1 << 12
SECONDS = 5.0
# Behind the name: a prefix or suffix that goes, a part that is replaced, other letters, a part by its numbers.
PLAIN = r"""(?:[^$`(){}\\"'\n@~]|\\[^\n$`]|"[^"$`\\\n]*"|'[^'$`\n]*')*"""
PURE = re.compile(
    rf"\$\{{[A-Za-z_]\w*(?P<does>(?:%|\#|/|\^|,){PLAIN}|:\s*(?:\d{{1,6}}|\s-\d{{1,6}})(?::\s*\d{{1,6}})?)\}}"
)


def expanded(expression: str, value: str) -> str | None:
    """The text of such an expansion of a variable that holds this; None where it is another, or bash is not there."""
    found = PURE.fullmatch(expression)
    if found is None or len(expression) + len(value) > TEXT_LIMIT or "\0" in value:
        return None
    return _asked(found["does"], value)


@functools.lru_cache(maxsize=4096)
def _asked(does: str, value: str) -> str | None:
    bash = shutil.which("bash")
    if bash is None:
        return None
    try:
        done = subprocess.run(
            [bash, "--norc", "-c", f'x=${{V{does}}}; printf %s "$x"'],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            env={"V": value, "LC_ALL": "C.UTF-8"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 and not done.stderr else None
