"""Which words does each verb take, besides the options of the table?"""

from __future__ import annotations

import argparse

from preflight.cli.parser import EXIT_CODES, Parser, add_language
from preflight.said import said

ON_A_SCREEN = 12  # options that --help describes one by one
FORMATS = (
    "text, json, html, markdown, junit, prometheus, csv, nagios, good, bad, exclude, nodes, fix "
    "or nodelist (with --need)"
)


def add_options(parser: argparse.ArgumentParser, verb: str) -> None:
    """The options of the table that a verb takes."""
    from preflight.job.options.options import OPTIONS
    from preflight.job.options.table import add_options

    add_options(parser, OPTIONS, verb)
    taken = [row for row in OPTIONS.values() if verb in row.verbs]
    if isinstance(parser, Parser) and len(taken) > ON_A_SCREEN:
        parser.describe_first(row.field for row in taken if row.is_common)


def words_of_checks(parser: argparse.ArgumentParser, verb: str) -> None:
    """What a verb takes that runs checks: options, how much is shown, and after -- words for pytest."""
    add_options(parser, verb)
    _add_verbosity(parser)
    if verb == "run":
        parser.add_argument("pytest", nargs="*", metavar="PYTEST", help="After --: further words for pytest.")


def words_of_report(parser: argparse.ArgumentParser, verb: str) -> None:
    """What `report` takes: runs, and what to make of them."""
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="*",
        help="A run: its folder, its id in reports/, or `last` (the default). After an earlier run: what changed.",
    )
    add_options(parser, verb)
    _add_verbosity(parser)
    parser.add_argument("--list", action="store_true", help="List the runs in the folder given. Default: reports.")
    text = "Show bandwidth, step times and facts over all runs in the folder given, as a page there. Default: reports."
    parser.add_argument("--trend", action="store_true", help=text)
    parser.add_argument("--open", action="store_true", help="Open the page of the run in the browser.")
    text = (
        "Choose the N best nodes, and say why others are left out; --format=nodelist for sbatch, good for a hostfile."
    )
    parser.add_argument("--need", metavar="N", type=int, help=text)
    parser.add_argument("--keep", metavar="N", help="Delete all runs in that folder but the newest N.")
    parser.add_argument(
        "--format", metavar="FORMAT", default="text", help=said("One of {FORMATS}. Default: text.", FORMATS)
    )


def words_of_explain(parser: argparse.ArgumentParser, verb: str) -> None:
    """What `explain` takes: whatever is to be explained."""
    text = "A check, a launch rule, a variable, a threshold or an error: a part of its name, or words of its text."
    parser.add_argument("what", nargs="*", metavar="WHAT", help=text)
    add_options(parser, verb)


def words_of_diagnose(parser: argparse.ArgumentParser, verb: str) -> None:
    """What `diagnose` takes: logs, or where a job hangs."""
    text = "What the job printed: files or folders of logs, gzip and zstd too, or -."
    parser.add_argument("logs", nargs="*", metavar="LOG", help=text)
    group = parser.add_argument_group("a job that hangs now (it is looked at, and not disturbed)")
    group.add_argument("--match", metavar="PATTERN", help="A regular expression over the command lines of its ranks.")
    text = "A process of the job, or a parent of one. Repeatable."
    group.add_argument("--pid", metavar="N", type=int, action="append", help=text)
    add_options(parser, verb)


def _add_verbosity(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.set_defaults(verbosity="summary")
    for letter, name, value, text in (
        ("-v", "--verbose", "checks", "Show every check with its verdict."),
        ("-q", "--quiet", "line", "Show one line."),
    ):
        group.add_argument(letter, name, dest="verbosity", action="store_const", const=value, help=text)


def words_of_rehearse(parser: argparse.ArgumentParser, verb: str) -> None:
    """What `rehearse` takes: scripts."""
    text = "The script, one for all nodes or one for each; with its words as one: 'run.sh 0'."
    parser.add_argument("rehearse", nargs="+", metavar="FILE", help=text)
    group = parser.add_argument_group("k8s FILE (writes a manifest that rehearses, and contacts no cluster)")
    text = "Where to write it; - is the standard output. Default: FILE's name with .rehearsal.yaml, here."
    group.add_argument("--out", metavar="OUT", help=text)
    text = "What `kubectl logs --prefix` of its pods printed, to be judged; - is the standard input."
    group.add_argument("--logs", metavar="LOG", help=text)
    add_options(parser, verb)
    _add_verbosity(parser)


def words_of_launch(parser: argparse.ArgumentParser, _verb: str) -> None:
    """What `launch` takes: check or write, and the words of each."""
    from preflight.launch.launchers import writable

    add_language(parser)
    parts = parser.add_subparsers(dest="part", metavar="PART", parser_class=Parser, required=True)
    text = "Check launch files against each other, and with --hosts against the cluster."
    check = parts.add_parser("check", help=text, description=text, epilog=EXIT_CODES)
    check.add_argument("files", nargs="+", metavar="FILE", help="Launch files; a quoted glob is allowed.")
    check.add_argument(
        "--format", choices=("text", "github", "sarif"), default="text", help="github is annotations. Default: text."
    )
    check.add_argument(
        "--diff", action="store_true", help="Print a patch for `git apply` that fixes what has one right value."
    )
    add_options(check, "launch check")
    text = "Write correct launch files for these hosts."
    write = parts.add_parser("write", help=text, description=text, epilog=EXIT_CODES)
    add_options(write, "launch write")
    write.add_argument(
        "--launcher",
        metavar="NAME",
        required=True,
        choices=writable(),
        help="What starts the job: %(choices)s.",
    )
    write.add_argument(
        "--out", metavar="DIR", required=True, help="The folder for the files; the same path on every node."
    )
    write.add_argument("--like", metavar="FILE", help="A launch file of yours, whose other settings are kept.")
    write.add_argument("program", nargs="*", metavar="PROGRAM", help="After --: the program and its arguments.")
