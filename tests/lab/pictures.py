"""Where do README's pictures come from: ``python -m tests.lab.pictures``, a run in the lab with a fault on node3.

What the run prints, and its report.html, as Debian's chromium draws them: docs/terminal.png and docs/report.png.
"""

from __future__ import annotations

import html
import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.browser import Browser, browser, why_not

from . import faults
from .fixtures import why_not as why_no_lab
from .lab import Lab

DOCS = Path(__file__).parents[2] / "docs"
COLUMNS = 112
COMMAND = "preflight run --hosts='node[1-3]'"
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "35": "#d2a8ff", "2": "#8b949e"}
PAGE = """<!DOCTYPE html><meta charset=utf-8><style>
body { margin: 0; background: #0d1117 } pre { margin: 0; padding: 20px 24px; color: #e6edf3; display: inline-block;
font: 15px/1.45 'DejaVu Sans Mono', monospace }</style><pre>%s</pre>"""


def on_terminal(lab: Lab, folder: Path) -> str:
    """What a person sees at the end of the run, with its colours."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "preflight", "run", "--hosts=node[1-3]", f"--python={sys.executable}"]
    env = {"TERM": "xterm", "COLUMNS": str(COLUMNS), "CI": "true"}
    process = lab.start(
        [*words, f"--report-dir={folder}"], env=env, stdout=theirs, stderr=subprocess.DEVNULL, cwd=folder.parent
    )
    os.close(theirs)
    text = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the last one at the terminal has left
            break
        if not piece:
            break
        text += piece
    os.close(ours)
    process.wait()
    return text.decode().replace("\r\n", "\n").replace(str(folder), "reports/20300102-030405-1a2b3c").strip("\n")


def painted(text: str) -> str:
    """The colours of a terminal as HTML."""
    told = html.escape(text)
    told = re.sub(r"\x1b\[0m", "</span>", told)
    return re.sub(r"\x1b\[(\d+)m", lambda found: f'<span style="color: {COLOURS[found[1]]}">', told)


def draw_terminal(window: Browser, text: str, folder: Path) -> None:
    """A picture as large as the text."""
    page = folder / "terminal.html"
    page.write_text(PAGE % painted(f"$ {COMMAND}\n{text}"), encoding="utf-8")
    window.open(page)
    box = "const b = document.querySelector('pre').getBoundingClientRect(); return [b.width, b.height].map(Math.ceil)"
    width, height = window.run(box)
    window.open(page, width=width, height=height)
    window.screenshot(DOCS / "terminal.png")


def main() -> None:
    """Make both pictures anew."""
    reason = why_no_lab() or why_not()
    if reason:
        sys.exit(f"pictures: {reason}")
    DOCS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, Lab.create(3) as lab, browser() as window:
        folder = Path(scratch) / "report"
        with faults.mtu(lab["node3"], 1400):
            text = on_terminal(lab, folder)
        draw_terminal(window, text, Path(scratch))
        window.open(folder / "report.html", width=1280, height=800)
        window.screenshot(DOCS / "report.png")
    for path in sorted(DOCS.glob("*.png")):
        print(f"{path.relative_to(DOCS.parent)}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
