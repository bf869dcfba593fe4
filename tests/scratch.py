"""Where does lie what tests leave behind, and who removes it? One folder, which goes with the run however that ends."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

# Waits until whoever holds the other end of its input has ended, be it killed; its workers end a little later.
REMOVER = """
read -r word
rm -rf --one-file-system -- "$1"
[ "$word" = ended ] || { sleep 5; rm -rf --one-file-system -- "$1"; }
"""
# What an optimizer of torch makes in the folder for temporary files as soon as it is imported, unless this says where.
COMPILER_CACHE = "TORCHINDUCTOR_CACHE_DIR"


class Scratch:
    """The folder for temporary files of this process and of all that it starts, with an empty home in it.

    A run reads the start files of the account's shells, which take seconds where they set up conda or pyenv, and
    remembers what it certified: neither is any test's business. Where pip finds packages stays the account's, and
    the folders that pytest keeps of the last runs stay where they are looked for.
    """

    def __init__(self) -> None:
        """Make it, and the process that removes it."""
        top = tempfile.gettempdir()
        self.path = Path(tempfile.mkdtemp(prefix="preflight-", dir=top))
        self.path.chmod(0o755)  # tests as another user work below it
        words = ["sh", "-c", REMOVER, "remover", str(self.path)]
        # In a session of its own: what ends a whole group of processes leaves it.
        self._remover = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", top)

    def move_in(self) -> None:
        """Let this process and what it starts write there."""
        pip = os.path.expanduser("~/.config/pip/pip.conf")
        if os.path.exists(pip):
            os.environ.setdefault("PIP_CONFIG_FILE", pip)
        home = self.path / "home"
        home.mkdir()
        os.environ["HOME"] = str(home)
        os.environ[COMPILER_CACHE] = str(home / "torchinductor")
        os.environ["TMPDIR"] = tempfile.tempdir = str(self.path)

    def left(self) -> list[str]:
        """What nobody has removed."""
        return sorted({path.name for path in self.path.iterdir()} - {"home"})

    def remove(self) -> None:
        """Remove it with all that is in it."""
        self._remover.communicate(b"ended\n", timeout=60)


@contextmanager
def of_a_program() -> Iterator[None]:
    """The folder of a program that starts ranks, moved in, until it ends."""
    with ExitStack() as cleanup:
        of_a_run(cleanup.callback)
        yield


def of_a_run(add_cleanup: Callable[[Callable[[], None]], None]) -> Scratch:
    """The folder of a run of tests, moved in."""
    scratch = Scratch()
    add_cleanup(scratch.remove)
    scratch.move_in()
    return scratch
