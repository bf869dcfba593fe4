"""What is sent to a node for a rank to run? One text, which needs nothing that is installed there."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from preflight.reach.session import payload

PACKAGE = Path(__file__).parents[2]
RANKS = PACKAGE / "job" / "ranks"
IMPORT = re.compile(r"^ *from (preflight\.job\.ranks[\w.]*) import", re.MULTILINE)  # the form in which ranks' code does
# What follows the text of the loader, whose `install` this is.
START = """
install({texts!r})
import os
from preflight.job.ranks.{workload} import main
os._exit(main())
"""


@functools.cache
def script_of(workload: str) -> bytes:
    """The program of a workload as one text, which holds every module that it imports.

    A rank has no folder of ours beside it, and what is installed there may be of another version.
    """
    texts = {"preflight": ""}
    wanted = [f"preflight.job.ranks.{workload}"]
    while wanted:
        name = wanted.pop()
        path = PACKAGE.joinpath(*name.split(".")[1:])
        texts[name] = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")
        imported = [name.rpartition(".")[0], *IMPORT.findall(texts[name])]
        wanted += [module for module in imported if module not in texts]
    loader = payload.node_sources()["preflight.node.agent.bootstrap"]
    return (loader + START.format(texts=texts, workload=workload)).encode()
