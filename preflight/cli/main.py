"""Which verb does the command line ask for, and with which options?"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from preflight import __version__
from preflight.cli.parser import EXIT_CODES, Formatter, Parser, add_language
from preflight.cli.words import (
    add_options,
    words_of_checks,
    words_of_diagnose,
    words_of_explain,
    words_of_launch,
    words_of_rehearse,
    words_of_report,
)
from preflight.judge.ledger.findings import EXIT_USAGE
from preflight.said import said
from preflight.said.errors import PreflightError, UsageError

if TYPE_CHECKING:
    from preflight.report.language import Language

LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG")
GATES = ("reach", "names", "network", "software", "mesh")
DESCRIPTION = "Will my multi-node PyTorch job start on these nodes, will it be fast, and if not, which node and why?"


def run(argv: Sequence[str]) -> int:
    """The exit code of a command line."""
    if {"_ARGCOMPLETE", "COMP_LINE", "COMP_POINT"} <= os.environ.keys():  # a shell asks, which sets all of them
        _complete()
    code = _code(list(argv) or _words_of_rank())
    sys.stdout.flush()
    return code


def _words_of_rank() -> list[str]:
    """What no words at all mean: on a rank of a job, a run of that job's nodes."""
    from preflight.cli.together import words_of_rank

    return words_of_rank(os.environ)


def _complete() -> None:
    """Tell the shell what may come next, and end; only where argcomplete is installed."""
    with contextlib.suppress(ImportError):
        import argcomplete

        argcomplete.autocomplete(parser_of(tuple(VERBS)))


def _code(argv: list[str]) -> int:
    try:
        try:
            words = parser_of(argv).parse_args(argv)
        except SystemExit as ended:  # help, a version or a usage error: all is said, but not yet written
            return int(ended.code or 0)
        if words.verb is None:
            parser_of(argv).print_help()
            return EXIT_USAGE
        words.lang = words.lang or words.lang_before
        return int(VERBS[words.verb].run(words))
    except UsageError as error:
        _complain(error, argv)
        return EXIT_USAGE
    except PreflightError as error:
        _complain(error, argv)
        return 3


def _complain(error: PreflightError, argv: Sequence[str]) -> None:
    from preflight.report.printable import printable  # here, as help needs none of the reports

    message = _language(argv).say(str(error))
    print(said("preflight: {message}", printable(message, keep_newlines=True)), file=sys.stderr)


def parser_of(argv: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of all verbs; only those that are named get their options, which take a while to import."""
    parser = Parser(prog="preflight", description=DESCRIPTION, epilog=EXIT_CODES)
    parser.add_argument(
        "--version", action="version", version=said("preflight {version}", __version__), help="Show the version."
    )
    add_language(parser)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser)
    for name, verb in VERBS.items():
        words = verbs.add_parser(
            name, help=verb.help, description=verb.help, epilog=_epilog(verb), formatter_class=Formatter
        )
        if name in argv:
            verb.add_words(words, name)
    return _in_language(parser, argv)


def _in_language(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.ArgumentParser:
    """The parser with all that its --help says in the language asked for."""
    if "zh" in "".join([*argv, *(os.environ.get(name, "") for name in LOCALE)]):
        from preflight.cli.spoken import tell

        tell(parser, _language(argv))
    return parser


def _spoken(words: argparse.Namespace) -> Language:
    """The language of a verb's parsed options."""
    from preflight.report.language import chosen

    return chosen(words.lang or "auto", os.environ)


def _language(argv: Sequence[str]) -> Language:
    """The language of --lang among the words, whose options are not parsed yet, or of the locale."""
    from preflight.report.language import chosen

    named = [word.removeprefix("--lang=") for word in argv if word.startswith("--lang=")]
    named += [argv[place + 1] for place, word in enumerate(argv[:-1]) if word == "--lang"]
    return chosen(named[-1] if named else "auto", os.environ)


def _epilog(verb: Verb) -> str:
    examples = "".join(said("  preflight {line}\n", line) for line in verb.examples)
    return f"examples:\n{examples}\n{EXIT_CODES}"


def _run(words: argparse.Namespace) -> int:
    given = _command()
    if words.last_failed and words.hosts is None:
        words, given = _as_last_time(words)
    return _run_given(words, given)


def _run_given(words: argparse.Namespace, given: tuple[str, ...]) -> int:
    """A run with these words, which the command line `given` says in full."""
    from preflight.cli.allocate import request_in, run_inside
    from preflight.cli.run import run_checks
    from preflight.cli.together import is_asked, run_as_rank

    if is_asked(words.hosts, os.environ):
        return run_as_rank(partial(_run_given, words, given), seconds=_deadline_of(words))
    request = request_in(words.hosts)
    if request is not None:
        return run_inside(request, given[1:])
    after = given[given.index("--") + 1 :] if "--" in given else ()
    asked = words.pytest[: len(words.pytest) - len(after)]
    for word in asked:
        if not Path(word.partition("::")[0]).exists():
            meant = shlex.quote(",".join([*([words.hosts] if words.hosts else []), *asked]))
            is_file = "/" in word or word.endswith(".py")
            guess = "" if is_file else said("did you mean --hosts={meant}? ", meant)
            raise UsageError(said("run: {word!r} is not a file; {guess}words for pytest go after --", word, guess))
    if words.rehearse and not words.dry_run:
        from preflight.cli.rehearse import DECLINED, is_told_and_agreed

        if not is_told_and_agreed(vars(words)):
            return DECLINED
    return run_checks(vars(words), given, extra=words.pytest)


def _deadline_of(words: argparse.Namespace) -> float:
    """How long the run may take, before anybody knows its nodes."""
    from preflight.job.options.options import Options

    given = {name: getattr(words, name) for name in ("profile", "deadline", "vendor_tests")}
    return Options(**{name: value for name, value in given.items() if value is not None}).deadline_seconds


def _as_last_time(words: argparse.Namespace) -> tuple[argparse.Namespace, tuple[str, ...]]:
    """These words over those of the last run: its hosts, its launch files, its settings; the report is a new one.

    With them the command line that says all of it: what is typed again from the report of this run asks the same nodes.
    """
    from preflight.job.options.options import OPTIONS
    from preflight.job.options.table import words_of
    from preflight.run.history import last_run, refuse_other_nodes

    last = last_run()
    given = [re.sub("^--preflight-", "--", word) for word in last.head.run.command[1:]]
    verb = next((word for word in given if word in VERBS), "")
    if verb not in ("", "run"):
        raise UsageError(said("--last-failed: the last run was `preflight {verb}`; name the hosts with --hosts", verb))
    parser = Parser(add_help=False)
    words_of_checks(parser, "run")
    before = vars(parser.parse_known_args([word for word in given if word != verb])[0])
    # A site's own checks are asked for by their files; -k and similar options are what --last-failed replaces.
    before["pytest"] = [word for word in before["pytest"] if Path(word.partition("::")[0]).exists()]
    kept = {name: value for name, value in before.items() if name not in ("report_dir", "json", "verbosity")}
    now = {name: value for name, value in vars(words).items() if value not in (None, False, [])}
    merged = {**vars(words), **kept, **now}
    merged["hosts"] = merged["hosts"] or "local"
    refuse_other_nodes(last, merged["hosts"])
    extra = ["--", *merged["pytest"]] if merged["pytest"] else []
    return argparse.Namespace(**merged), ("preflight", "run", *words_of(OPTIONS, merged, "run"), *extra)


def _bench(words: argparse.Namespace) -> int:
    from preflight.cli.run import run_checks

    return run_checks(vars(words), _command(), subjects=(*GATES, "bench"), section="bench")


def _train(words: argparse.Namespace) -> int:
    from preflight.cli.run import run_checks

    return run_checks(vars(words), _command(), subjects=(*GATES, "training"), section="training")


def _rehearse(words: argparse.Namespace) -> int:
    from preflight.cli.rehearse import rehearse

    if words.rehearse[0] == "k8s" and len(words.rehearse) == 2:
        from preflight.cli.rehearsal import pods

        seconds = float(words.deadline) if words.deadline else None
        return pods.rehearse(words.rehearse[1], out=words.out, logs=words.logs, seconds=seconds)
    if words.out or words.logs:
        raise UsageError("rehearse: --out and --logs are of `rehearse k8s FILE`")
    return rehearse(vars(words), _command())


def _facts(words: argparse.Namespace) -> int:
    from preflight.cli.facts import show_facts
    from preflight.job.options.parse import parse_options

    return show_facts(parse_options(vars(words), command=_command()))


def _launch(words: argparse.Namespace) -> int:
    from preflight.cli import launch
    from preflight.job.options.parse import parse_options

    if words.part == "check":
        options = parse_options(vars(words), command=_command())
        with_hosts = words.hosts is not None
        return launch.check(options, words.files, with_hosts=with_hosts, style=words.format, only_diff=words.diff)
    # --launcher of this verb is what the files are for; no reference job is started
    options = parse_options({**vars(words), "launcher": None}, command=_command())
    like = Path(words.like) if words.like else None
    program = tuple(words.program) or ("train.py",)
    given = words.hosts or "local"
    return launch.write(options, Path(words.out), launcher=words.launcher, program=program, like=like, given=given)


def _report(words: argparse.Namespace) -> int:
    from preflight.cli.report import open_page, show_choice, show_history, show_report, show_trend
    from preflight.run.history import REPORTS, called

    given = [Path(run) for run in words.runs]
    if words.list or words.keep is not None:
        if len(given) > 1:
            raise UsageError("report: --list and --keep take one folder of runs")
        return show_history(given[0] if given else REPORTS, words.keep, _spoken(words))
    if words.trend:
        if len(given) > 1:
            raise UsageError("report: --trend takes one folder of runs")
        return show_trend(given[0] if given else REPORTS, is_opened=words.open, language=_spoken(words))
    if len(given) > 2:
        raise UsageError(said("report: wanted one or two runs, as folders, ids or `last`; got {given}", len(given)))
    folders = [called(run) for run in given or [Path("last")]]
    if words.need is not None:
        return show_choice(folders[-1], words.need, words.format, _spoken(words))
    earlier = folders[0] if len(folders) == 2 else None
    if words.open:
        open_page(folders[-1])
    how = {"verbosity": words.verbosity, "language": _spoken(words)}
    return show_report(folders[-1], words.json, words.format, earlier, **how)


def _explain(words: argparse.Namespace) -> int:
    from preflight.cli.explain import explain

    return explain(" ".join(words.what), _spoken(words))


def _diagnose(words: argparse.Namespace) -> int:
    from preflight.cli import diagnose

    is_live = words.match is not None or bool(words.pid)
    if is_live == bool(words.logs):
        raise UsageError(
            "diagnose: wanted LOG, what the job printed, or --match PATTERN or --pid N of one that hangs now"
        )
    if is_live:
        from preflight.job.options.parse import parse_options

        options = parse_options(vars(words), command=_command())
        return diagnose.look_at_job(options, match=words.match or "", pids=words.pid or [])
    if words.hosts is None:
        return diagnose.diagnose_logs(words.logs, words.json or "", language=_spoken(words))
    command = _command()
    return diagnose.diagnose_logs(
        words.logs,
        words.json or "",
        lambda diagnosis: diagnose.confirm(diagnosis, vars(words), command),
        language=_spoken(words),
    )


def _command() -> tuple[str, ...]:
    return ("preflight", *(sys.argv[1:] or _words_of_rank()))


@dataclass(frozen=True)
class Verb:
    """A verb: its line of help, the words it takes, what it does with them, and command lines to begin with."""

    help: str
    add_words: Callable[[argparse.ArgumentParser, str], None]
    run: Callable[[argparse.Namespace], int]
    examples: tuple[str, ...]


VERBS = {
    "run": Verb(
        "Run every check against the hosts, by default against this machine.",
        words_of_checks,
        _run,
        (
            "run --hosts='node[1-8]' --profile=quick",
            "run --hosts=@hostfile --launch=job.sh --python=/opt/conda/bin/python",
            "run --hosts='node[1-8]' --prune --report-dir=reports/today",
        ),
    ),
    "bench": Verb(
        "Measure collectives between the hosts, and name a slow node.",
        words_of_checks,
        _bench,
        ("bench --hosts='node[1-8]'", "bench --hosts='node[1-8]' --op=all -b 1M -e 256M"),
    ),
    "train": Verb(
        "Run the reference training job over the hosts.",
        words_of_checks,
        _train,
        ("train --hosts='node[1-2]' --launcher=torchrun", "train --hosts='node[1-2]' --strategy=fsdp --model=small"),
    ),
    "rehearse": Verb(
        "Run the job's own script for real, with the reference program in place of its own.",
        words_of_rehearse,
        _rehearse,
        (
            "rehearse --hosts='node[1-2]' run.sh",
            "rehearse --hosts='node[1-2]' 'run.sh 0' 'run.sh 1'",
            "rehearse --hosts=slurm train.sbatch",
            "rehearse k8s job.yaml",
        ),
    ),
    "facts": Verb(
        "Show what each node is, as a table or as JSON.",
        add_options,
        _facts,
        ("facts --hosts='node[1-8]'", "facts --hosts=node3 --json=node3.json"),
    ),
    "launch": Verb(
        "Check launch files, or write correct ones.",
        words_of_launch,
        _launch,
        (
            "launch check 'configs/*.yaml' --hosts='node[1-2]'",
            "launch write --launcher=torchrun --hosts='node[1-2]' --out=launch -- train.py --epochs 3",
        ),
    ),
    "report": Verb(
        "Show a finished run again; of two runs, show what changed.",
        words_of_report,
        _report,
        ("report last", "report last --format=fix", "report --list"),
    ),
    "diagnose": Verb(
        "Say what broke a job, by the logs it left, or where one that hangs now is stuck.",
        words_of_diagnose,
        _diagnose,
        ("diagnose logs/rank0.log logs/rank1.log", "diagnose --hosts='node[1-8]' --match=train.py"),
    ),
    "explain": Verb(
        "Say what a check, a setting or an error means, and how to fix it.",
        words_of_explain,
        _explain,
        ("explain network.mtu_is_the_same_on_every_node", "explain socket timeout"),
    ),
}
