"""Which line of the user's script is running, and how did each end? bash says so, by a trap before every command.

The text of a command may hold secrets, so only its line is written down. What a script prints, its own traps for EXIT
and ERR and what it finds in $? and $_ stay as they are; a DEBUG trap of its own ends the record.
"""

from __future__ import annotations

import os

MOST_ROWS = 20000  # a loop of a script may turn a million times

# What BASH_ENV names. The trap is one line: in a second one LINENO would be that of the next.
# A module system may have named a file there, which is read first.
TRACE = """
if [ -n "${PREFLIGHT_BASH_ENV-}" ]; then . "$PREFLIGHT_BASH_ENV"; fi
_preflight_n=0
set -T
trap '_preflight_s=$? _preflight_u=$_; ((_preflight_n++ < MOST || _preflight_s)) && printf "%s %s %s %s %s %s\\n" \
"$_preflight_s" "$$" "$BASH_SUBSHELL" "${EPOCHREALTIME-}" "$LINENO" "${BASH_SOURCE[0]-}" 2>/dev/null >>"FILE" || :; \
: "$_preflight_u"' DEBUG
"""


def write(scratch: str) -> str:
    """Put the file for BASH_ENV into the scratch folder -> its path."""
    path = os.path.join(scratch, "trace.bash")
    with open(path, "w") as file:
        file.write(TRACE.replace("MOST", str(MOST_ROWS)).replace("FILE", os.path.join(scratch, "trace")))
    return path


def row(line: bytes) -> list[object]:
    """[status of the command before, shell, depth, time, line, file] of a line that the trap wrote; [] for another."""
    fields = line.decode("utf-8", "replace").split(" ", 5)
    if len(fields) < 6 or not all(field.isdigit() for field in (*fields[:3], fields[4])):
        return []
    at = fields[3].replace(",", ".")  # as some locales write it
    whole = at.replace(".", "", 1).isdigit()
    return [int(fields[0]), int(fields[1]), int(fields[2]), float(at) if whole else 0.0, int(fields[4]), fields[5]]
