"""How is a finished run shown again?"""

from __future__ import annotations

import difflib
import shutil
import sys
from pathlib import Path

import msgspec

from preflight.report import FILES, FORMATS
from preflight.report.changes import change_lines, heading
from preflight.report.columns import counted
from preflight.report.compare import changes
from preflight.report.document import to_document
from preflight.report.files import print_json, write_atomically
from preflight.report.formats.hostlists import CHOICES, choice_of, choice_text
from preflight.report.formats.nagios import nagios_code
from preflight.report.formats.text import TELLING, headline
from preflight.report.json import read_json
from preflight.report.language import ENGLISH, Language
from preflight.report.material import Material
from preflight.report.trend import trend_lines
from preflight.run import history, stored
from preflight.run.folder import wants_colour
from preflight.said import said
from preflight.said.errors import UsageError

TREND_PAGE = "trend.html"


def show_report(
    folder: Path,
    target: str | None,
    wanted: str = "text",
    earlier: Path | None = None,
    *,
    verbosity: str = "summary",
    language: Language = ENGLISH,
) -> int:
    """A finished run in the format asked for -> 0 once it is shown, so that `> f && sh f` goes on.

    As nagios the code of its state; of a run that never finished that of the run, which is not 0.

    With an earlier run beside it, also what has changed since.
    """
    if wanted in CHOICES and wanted not in ("text", *FORMATS):
        raise UsageError(said("report: --format={wanted} lists chosen nodes: say with --need N how many", wanted))
    if wanted not in ("text", *FORMATS):
        near = difflib.get_close_matches(wanted, ("text", *FORMATS), n=1)
        guess = said("; did you mean {near}?", near[0]) if near else ""
        raise UsageError(
            said("report: --format {wanted!r} is not one of text, {FORMATS}{guess}", wanted, ", ".join(FORMATS), guess)
        )
    report = read_json(folder / "report.json" if folder.is_dir() else folder)
    if earlier is not None:
        report = msgspec.structs.replace(report, changes=changes(stored.snapshot(earlier), stored.snapshot(folder)))
    if target:
        print_json(to_document(report), target)
    elif wanted != "text":
        material = (
            stored.material(folder, report, language) if wanted == "html" else Material(report, language=language)
        )
        sys.stdout.flush()
        sys.stdout.buffer.write(FORMATS[wanted](material).encode("utf-8"))  # UTF-8 wherever it is piped to
        if wanted == "nagios":
            return nagios_code(report)
    elif earlier is not None and report.changes is not None:
        since = heading(report.changes, language.verdict)
        lines = change_lines(report.changes, most=1000, language=language)
        print("\n".join([language.say(headline(report)), language.say(since), "", *lines]))
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        how = {"directory": str(folder), "width": width, "colour": wants_colour(), "language": language}
        print(TELLING[verbosity](report, **how), end="")
    return 0 if report.finished else report.exit_code


def show_choice(folder: Path, need: int, wanted: str, language: Language = ENGLISH) -> int:
    """The nodes of a finished run for a job that needs so many; 1, or the run's own code, where fewer are good.

    A list for a program goes to standard output, and who is left out to standard error.
    """
    if need < 1 or wanted not in CHOICES:
        raise UsageError(
            said(
                "report --need {need} --format={wanted}: wanted a number from 1, and {CHOICES}",
                need,
                wanted,
                ", ".join(CHOICES),
            )
        )
    report = read_json(folder / "report.json" if folder.is_dir() else folder)
    choice = choice_of(report, need)
    if wanted != "text":
        print(choice_text(report, choice, language), end="", file=sys.stderr)
    if len(choice.nodes) < need:
        print(
            language.say(said("{counted} good, {need} needed", counted(len(choice.nodes), "node"), need)),
            file=sys.stderr,
        )
        return report.exit_code or 1  # and no list: a job that starts on too few is not what was asked for
    print(choice_text(report, choice, language) if wanted == "text" else CHOICES[wanted](report, choice), end="")
    return 0


def open_page(folder: Path) -> None:
    """Show the page of a run in the browser; without a browser, say where the page is.

    Raises UsageError where the run has no page.
    """
    page = (folder if folder.is_dir() else folder.parent) / FILES["html"]
    if not page.is_file():
        raise UsageError(said("report --open: {page} is not there; write it with --format=html", page))
    _browse(page)


def _browse(page: Path) -> None:
    import webbrowser  # 20 ms to import, for one option

    address = page.absolute().as_uri()
    if not webbrowser.open(address):
        print(said("no browser could be started; the page is {address}", address), file=sys.stderr)


def show_trend(folder: Path, *, is_opened: bool, language: Language = ENGLISH) -> int:
    """Write the page of all runs in a folder, and say what got worse with which run."""
    from preflight.report.html.trend import trend_html

    found = history.trend_of(folder)
    page = folder / TREND_PAGE
    try:
        write_atomically(page, trend_html(found, language).encode("utf-8"))
    except OSError as error:
        raise UsageError(
            said("report --trend: {page} cannot be written: {strerror}", page, error.strerror or error)
        ) from None
    print("\n".join([*trend_lines(found, language), language.say(said("page      {page}", page))]))
    if is_opened:
        _browse(page)
    return 0


def show_history(folder: Path, kept: str | None, language: Language = ENGLISH) -> int:
    """The runs in a folder as a list; with `kept` all but so many of the newest are deleted first."""
    if kept is not None:
        if not kept.isascii() or not kept.isdigit() or len(kept) > 6:
            raise UsageError(said("report: --keep {kept!r}: wanted a number of runs", kept))
        print(language.lines("\n".join(history.keep(folder, int(kept)))))
    print(history.list_text(folder, language))
    return 0
