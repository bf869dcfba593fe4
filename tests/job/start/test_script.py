"""Does a rank run what was sent, and nothing that is installed beside it?"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from preflight.job.start.script import script_of


def test_a_program_brings_every_module_that_it_imports():
    """In one program: on a node there is no folder of ours beside it."""
    text = script_of("collectives").decode()
    reads = "from preflight.job.ranks.bench.operations import COLLECTIVES\nprint(*COLLECTIVES)"
    ends = text.removesuffix("os._exit(main())\n") + f"{reads}\nfrom preflight.job.ranks.devices import checksum\n"
    # -I and /: neither this checkout nor what is installed could be read instead.
    argv = [sys.executable, "-I", "-S", "-c", ends]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd="/")
    assert done.stdout.startswith("all_reduce broadcast "), done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("workload", ["collectives", "train", "devices", "rehearsal.rank"])
def test_what_is_sent_holds_its_packages_too(workload):
    """Every module that one of them imports, and every folder above it."""
    held = set(re.findall(r"'(preflight[\w.]*)': ", script_of(workload).decode()))
    imported = set(re.findall(r"from (preflight\.job\.ranks[\w.]*) import", script_of(workload).decode()))
    assert {f"preflight.job.ranks.{workload}", "preflight.job.ranks", "preflight.job", "preflight"} <= held
    assert imported <= held
    assert len(imported) > 3
