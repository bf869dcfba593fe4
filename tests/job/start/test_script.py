"""Does a rank run what was sent, and nothing that is installed beside it?"""

from __future__ import annotations

import subprocess
import sys

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
