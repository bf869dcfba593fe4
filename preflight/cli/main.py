"""Which verb was asked for, and what does it print?"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from preflight import __version__
from preflight.errors import PreflightError, UsageError
from preflight.ledger.findings import EXIT_USAGE
from preflight.options.table import BENCH_OPTIONS, BENCH_SHORT, OPTIONS, Chosen

LATER = ("diagnose",)
GATES = "reach,names,network,software,mesh"
SHARED_WITH_LAUNCH = {"hosts", "python", "wrap", "ssh_option", "env", "backend", "ranks_per_node", "deadline"}
DESCRIPTION = "Will my multi-node PyTorch job start on these nodes, will it be fast, and if not, which node and why?"
EXIT_CODES = "exit codes: 0 pass or warn, 1 fail, 3 not measured, 4 usage, 5 nothing asked; 130/143/129 on INT/TERM/HUP"
FORMATS = "text, json, html, markdown, junit, prometheus, csv, nagios, good, bad, exclude or nodes"
SIGPIPE_EXIT = 3


class Formatter(argparse.HelpFormatter):
    """Help texts that name launchers and transports, which are imported only when help is printed: it takes a while."""

    def _expand_help(self, action: argparse.Action) -> str:
        text = super()._expand_help(action)
        if "{" not in text:
            return text
        from preflight.launch.launchers import startable, writable
        from preflight.transport import forms

        names = {"startable": startable(), "writable": writable(), "forms": forms()}
        return text.format(**{name: ", ".join(listed) for name, listed in names.items()})


class Parser(argparse.ArgumentParser):
    """argparse with our exit code for usage errors, and one line instead of a page."""

    def __init__(self, **words: Any) -> None:
        super().__init__(formatter_class=Formatter, **words)

    def error(self, message: str) -> NoReturn:
        """Leave with 4 and one line."""
        self.exit(EXIT_USAGE, f"preflight: {message} (see preflight --help)\n")


def run(argv: Sequence[str]) -> int:
    """The exit code of a command line."""
    code = 0
    try:
        code = _code(list(argv))
        sys.stdout.flush()  # a reader who has left is met here, not at the interpreter's exit with a code of its own
    except BrokenPipeError:
        # Whoever read our output has left; nothing more can be said to them.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return code or SIGPIPE_EXIT
    return code


def _code(argv: list[str]) -> int:
    try:
        if argv and argv[0] in LATER:
            raise UsageError(f"{argv[0]}: not supported (see preflight --help)")
        try:
            chosen = _parser().parse_args(argv)
        except SystemExit as ended:  # help, a version or a usage error: all is said, but not yet written
            return int(ended.code or 0)
        if chosen.verb is None:
            _parser().print_help()
            return EXIT_USAGE
        return int(VERBS[chosen.verb](chosen))
    except UsageError as error:
        print(f"preflight: {error}", file=sys.stderr)
        return EXIT_USAGE
    except PreflightError as error:
        print(f"preflight: {error}", file=sys.stderr)
        return 3


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="preflight", description=DESCRIPTION, epilog=EXIT_CODES)
    parser.add_argument("--version", action="version", version=f"preflight {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser)
    for name, text in (
        ("run", "every check against the hosts (default --hosts=local)"),
        ("bench", "all-reduce bandwidth of the hosts, and which node is slow"),
        ("train", "the reference training job over the hosts"),
    ):
        verb = verbs.add_parser(name, help=text, description=text, epilog=EXIT_CODES)
        _add_options(verb, OPTIONS)
        _add_telling(verb)
        if name == "bench":
            _add_bench_options(verb)
        if name == "run":
            verb.add_argument("pytest", nargs="*", metavar="PYTEST", help="after --: further words for pytest")
    verb = verbs.add_parser("facts", help="what each node is, as a table or JSON", epilog=EXIT_CODES)
    names: tuple[str, ...] = ("hosts", "python", "wrap", "ssh-option", "env", "backend", "deadline", "shared", "same")
    names += ("ssh-trust", "json", "dry-run")
    _add_options(verb, {name: OPTIONS[name] for name in names})
    _add_launch(verbs)
    verb = verbs.add_parser("report", help="show a finished run again; of two runs, what changed")
    verb.add_argument("runs", metavar="RUN", nargs="*", help="the folder of a run; with an earlier one before it")
    _add_telling(verb)
    verb.add_argument("--list", action="store_true", help="the runs in the folder given (reports)")
    verb.add_argument("--keep", metavar="N", help="delete all runs in that folder but the newest N")
    verb.add_argument("--format", metavar="FORMAT", default="text", help=FORMATS)
    verb.add_argument("--json", **OPTIONS["json"])
    verb = verbs.add_parser("explain", help="what a check asks, why it matters, how to fix it")
    verb.add_argument("check", nargs="?", metavar="CHECK", help="a check's id, or a part of it")
    return parser


def _add_telling(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("-v", "--verbose", action="store_true", help="every check with its verdict")
    verb.add_argument("-q", "--quiet", action="store_true", help="one line")


def _add_launch(verbs: Any) -> None:
    launch = verbs.add_parser("launch", help="launch files: check them, or write right ones", epilog=EXIT_CODES)
    parts = launch.add_subparsers(dest="part", metavar="PART", parser_class=Parser, required=True)
    names = ("hosts", "python", "wrap", "ssh-option", "env", "backend", "ranks-per-node", "deadline")
    shared = {name: OPTIONS[name] for name in names}
    check = parts.add_parser("check", help="files against each other, and with --hosts against the cluster")
    check.add_argument("files", nargs="+", metavar="FILE", help="launch files; a quoted glob is allowed")
    check.add_argument("--format", metavar="NAME", default="text", help="text, github (annotations) or sarif")
    _add_options(check, {**shared, "json": OPTIONS["json"]})
    write = parts.add_parser("write", help="correct launch files for these hosts")
    _add_options(write, shared)
    write.add_argument("--launcher", metavar="NAME", required=True, help="{writable}")
    write.add_argument("--out", metavar="DIR", required=True, help="where the files go; the same path on every node")
    write.add_argument("--like", metavar="FILE", help="a file of yours whose other settings are kept")
    write.add_argument("program", nargs="*", metavar="PROGRAM", help="after --: the program and its arguments")


def _add_options(verb: argparse.ArgumentParser, options: dict[str, dict[str, Any]]) -> None:
    for name, attributes in options.items():
        verb.add_argument(f"--{name}", dest=name.replace("-", "_"), **attributes)


def _add_bench_options(verb: argparse.ArgumentParser) -> None:
    """By their plain names, which nothing else has here: --op, -b."""
    for option, attributes in BENCH_OPTIONS.items():
        name = option.removeprefix("bench-")
        short = [BENCH_SHORT[name]] if name in BENCH_SHORT else []
        verb.add_argument(*short, f"--{name}", dest=option.replace("-", "_"), **attributes)


def _run(chosen: argparse.Namespace) -> int:
    from preflight.cli.run import run_checks

    return run_checks(_options(chosen), extra=chosen.pytest)


def _bench(chosen: argparse.Namespace) -> int:
    from preflight.cli.run import run_checks

    return run_checks(_options(chosen), subjects=f"{GATES},bench", section="bench")


def _train(chosen: argparse.Namespace) -> int:
    from preflight.cli.run import run_checks

    return run_checks(_options(chosen), subjects=f"{GATES},training", section="training")


def _facts(chosen: argparse.Namespace) -> int:
    from preflight.cli.facts import show_facts

    return show_facts(_options(chosen))


def _launch(chosen: argparse.Namespace) -> int:
    from preflight.cli import launch as launching
    from preflight.options.options import options_from

    asked = Chosen({name: value for name, value in vars(chosen).items() if name in {*SHARED_WITH_LAUNCH, "json"}})
    options = options_from(asked, ["preflight", *sys.argv[1:]])
    if chosen.part == "check":
        return launching.check(
            options,
            chosen.files,
            with_hosts=chosen.hosts is not None,
            json_target=chosen.json or "",
            wanted=chosen.format,
        )
    like = Path(chosen.like) if chosen.like else None
    program = tuple(chosen.program) or ("train.py",)
    return launching.write(options, Path(chosen.out), launcher=chosen.launcher, program=program, like=like)


def _report(chosen: argparse.Namespace) -> int:
    from preflight.cli.report import show_history, show_report
    from preflight.cli.run import tells

    folders = [Path(run) for run in chosen.runs]
    if chosen.list or chosen.keep is not None:
        if len(folders) > 1:
            raise UsageError("report: --list and --keep take one folder of runs")
        return show_history(folders[0] if folders else Path("reports"), chosen.keep)
    if not 1 <= len(folders) <= 2:
        raise UsageError(f"report: wanted one or two runs, got {len(folders)}")
    earlier = folders[0] if len(folders) == 2 else None
    return show_report(folders[-1], chosen.json, chosen.format, earlier, tells(vars(chosen)))


def _explain(chosen: argparse.Namespace) -> int:
    from preflight.cli.explain import explain

    return explain(chosen.check or "")


def _options(chosen: argparse.Namespace) -> Chosen:
    return Chosen({name: value for name, value in vars(chosen).items() if name not in {"verb", "pytest"}})


VERBS = {
    "launch": _launch,
    "run": _run,
    "bench": _bench,
    "train": _train,
    "facts": _facts,
    "report": _report,
    "explain": _explain,
}
