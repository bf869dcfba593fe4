"""What became of a run, for a person, a program and a CI system.

``run``        RunReport: everything the formats say, and its JSON document
``text``       the summary on the terminal
``groups``     what belongs together for a reader
``measurements``  mesh, bench and training in a few lines
``table``      the benchmark as nccl-tests prints it
``json``       report.json, and reading it again
``junit``      junit.xml
``printable``  no control character of a node reaches an output
``files``      whole files or none
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from preflight.report.json import write_json
from preflight.report.junit import write_junit
from preflight.report.run import RunReport

Writer = Callable[[Path, RunReport], None]

# Format -> the name of its file in the folder of the run. report.json comes first: it is what the others derive from.
FILES = {"json": "report.json", "junit": "junit.xml"}
WRITERS: dict[str, Writer] = {"json": write_json, "junit": write_junit}
