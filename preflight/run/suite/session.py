"""How does one pytest session judge one cluster, from collection to the exit code?"""

from __future__ import annotations

import contextlib
import signal
import sys
import traceback
from collections.abc import Generator
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from preflight.job.options import launch
from preflight.job.options.options import Options
from preflight.judge.check import KINDS, Check
from preflight.judge.ledger.findings import EXIT_NOT_MEASURED, EXIT_USAGE, SEVERITY, Finding, Verdict
from preflight.judge.ledger.ledger import Ledger
from preflight.judge.ledger.waivers import waive
from preflight.judge.untouched import Picture
from preflight.reach import hosts
from preflight.report import FILES
from preflight.report.compare import Snapshot
from preflight.report.json import read_json
from preflight.report.printable import printable
from preflight.run import folder, history, stored
from preflight.run.live import Run
from preflight.run.notify import notify
from preflight.run.progress import on_terminal
from preflight.run.source import ReportedSource
from preflight.run.suite import launch_files
from preflight.run.suite.crew import Crew
from preflight.run.suite.existing import deselected_by, existing, hidden, why_not_collected
from preflight.run.suite.fixtures import Fixtures
from preflight.run.suite.items import check_of, contained, id_of, id_of_node, refuse_without_asserts
from preflight.run.suite.judge import Judge
from preflight.run.suite.leaving import keep, never_green, no_exit
from preflight.run.suite.one_cause import OneCause
from preflight.run.suite.own import REPLACED_FIX, OwnChecks
from preflight.run.suite.selection import place, why_left_out
from preflight.run.suite.stopping import INTERRUPT_CODES, Stopping, is_whole_program
from preflight.said import said
from preflight.said.errors import Interrupted, PreflightError, UsageError

OURS = (*KINDS, "settings")
CODE_CHECK = "run.code_is_that_of_preflight"  # of no node: an error where it is not
ENDED = pytest.StashKey[int]()  # the exit code of the session, when it has ended
BEFORE = pytest.StashKey[tuple[OwnChecks, Picture]]()  # taken before a conftest is loaded


class Checking(Fixtures):
    """The hooks of a session with hosts; registered only then."""

    def __init__(
        self,
        config: pytest.Config,
        options: Options,
        source: ReportedSource,
        *,
        baseline: Snapshot | None,
        taken: tuple[str, ...],
    ) -> None:
        refuse_without_asserts(config.getoption("assertmode", "rewrite"))
        self.config = config
        self.taken = taken  # the short options that another plugin has
        self.options = options
        self.source = source
        self.baseline = baseline
        self.today = datetime.now(timezone.utc).date()
        self._waive = partial(waive, waivers=options.settings.waivers, today=self.today)
        self.ledger = Ledger(waive=self._waive)
        self.judge = Judge(
            source,
            self.ledger,
            options.settings,
            require_all=options.require_all,
            is_pruning=options.prune or bool(options.need),
            crew=Crew(options.need or 0),
            command=options.command,
        )
        before = config.stash.get(BEFORE, None)
        self.own, self.picture = before or (OwnChecks(), Picture())
        self.checks: dict[str, Check] = {}
        self.collection_errors: list[str] = []
        self.broken_files: set[Path] = set()
        self.skipped_files: dict[Path, str] = {}  # with the reason; a folder where its conftest skips all of it
        self.stopping = Stopping()
        self.broken_because = ""
        self.unasked: set[str] = set()  # the checks of a rehearsal that nobody asked for
        self.changed = ""  # what of our own code or tables was replaced
        self.exit_code: int | None = None
        self.text = ""
        self.verbosity = "summary"
        self.json_target = ""
        self.plan: dict[str, Any] | None = None
        self._guards = contextlib.ExitStack()

    @classmethod
    def configured(cls, config: pytest.Config, options: Options, *, taken: tuple[str, ...] = ()) -> Checking:
        """The plugin for these options; `taken` are short options of other plugins. Raises UsageError."""
        if options.dry_run:
            hosts = options.hosts if options.from_run is None else ()
            language = folder.language_of(options)
            print(language.lines(folder.dry_run_text(options, hosts)))
            pytest.exit(language.say("dry run: nothing was contacted"), returncode=0)
        source: ReportedSource
        if options.from_run is not None:
            source = stored.load(history.called(options.from_run, what="--from"), options.backend)
            source.refuse_more_than_asked(options.profile, options.need)
            baseline = history.baseline(options, source.names)
        else:
            names = [host.name for host in options.hosts]
            if options.last_failed:
                options = replace(options, only=history.not_green(options, names))
            baseline = history.baseline(options, names)
            source = Run(options, progress=on_terminal(len(names), folder.language_of(options)), baseline=baseline)
        _quiet_pytest(config)
        checking = cls(config, options, source, baseline=baseline, taken=taken)
        checking.json_target = options.json
        checking.verbosity = options.verbosity
        return checking

    # -- collection

    def pytest_report_header(self) -> str:
        """What runs against which hosts, and the long names of options that others have taken."""
        others = [
            said("use --preflight-{name} (another plugin has --{name})", name) for name in self.taken if name != "hosts"
        ]
        return said("preflight: {names}", hosts.fold(self.source.names)) + "".join(f"; {other}" for other in others)

    def pytest_sessionstart(self) -> None:
        """Catch the signals, and leave a report that says error until there is a better one."""
        self._guards.enter_context(never_green())
        _quiet_reporter(self.config)
        self.stopping.install(0.0 if self.config.option.collectonly else self.options.deadline_seconds)
        if not self.config.option.collectonly:
            try:
                folder.write_started(self.source, self.ledger, self.options)
            except UsageError as error:
                raise pytest.UsageError(str(error)) from None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be collected is an error of its checks; one that skips itself has left them out."""
        path = (self.config.rootpath / report.nodeid.partition("::")[0]).resolve()
        if report.failed:
            self.collection_errors.append(report.nodeid)
            self.broken_files.add(path)
        elif report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "Skipped"
            self.skipped_files[path] = said("skipped: {removeprefix}", reason.removeprefix("Skipped: "))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """A signal ends the collection."""
        with self.stopping.interruptible():
            return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Order the checks by what they wait for, and refuse shapes that cannot be judged per node."""
        for hiding, second in hidden(self.config.args, self.config.invocation_params.dir).items():
            raise pytest.UsageError(said("two checks are called {hiding}: {second} is the second", hiding, second))
        for item in items:
            check = self.own.check(item) or check_of(item)
            if check.id in self.checks:
                raise pytest.UsageError(
                    said("two checks are called {id}: {nodeid} is the second", check.id, item.nodeid)
                )
            self.checks[check.id] = check
        if not self.options.rehearse and self.source.measured().rehearsal is None:
            # As the rules on launch files: without a script of the user's there is nothing to be asked.
            self.unasked = {id_of(item) for item in items if self.checks[id_of(item)].kind == "rehearsal"}
            items[:] = [item for item in items if id_of(item) not in self.unasked]
        for item in items:
            reason = why_left_out(self.checks[id_of(item)], self.checks, self.options, self.source)
            if reason:
                self.ledger.leave_out(id_of(item), reason)
        dropped = [item for item in items if id_of(item) in self.ledger.not_asked]
        items[:] = [item for item in items if id_of(item) not in self.ledger.not_asked]
        if dropped:
            self.config.hook.pytest_deselected(items=dropped)
        items.sort(key=lambda item: place(self.checks[id_of(item)]))

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """What -k, a profile or a verb leaves out is counted and said."""
        for item in items:
            self.ledger.leave_out(id_of(item), deselected_by(self.config.option))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write down every cell that must get a verdict, and every check that is left out, before anything runs."""
        folder_of_run = self.config.invocation_params.dir
        for item in session.items:
            self.ledger.expect(id_of(item), self.source.names)
            if not self.own.is_one(item):
                self.ledger.site_checks.add(id_of(item))
        collected = {id_of(item) for item in session.items}
        for check, path in existing(self.config.args, folder_of_run).items():
            if check in collected or check in self.ledger.not_asked or check in self.unasked:
                continue
            if path.resolve() in self.broken_files:
                self.ledger.expect(check, self.source.names)
            else:
                reason = why_not_collected(path.resolve(), self.skipped_files, self.config.option, folder_of_run)
                self.ledger.leave_out(check, reason)

    # -- running

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Reach the nodes before the first check; a signal ends that, or the check that runs.

        pytest is not told of it: our summary says what stopped the run, and needs no banner above it.
        """
        is_running = False
        try:
            with self.stopping.interruptible():
                if session.items and not (self.config.option.collectonly or session.testsfailed):
                    self._open()
                if self.broken_because:
                    session.items.clear()
                is_running = True
                return (yield)
        except Interrupted:
            if is_running:
                return True
        session.items.clear()
        return (yield)

    def _open(self) -> None:
        try:
            self.source.open()
            self.source.recall(self._measuring())
            if self.options.launch:
                names = tuple(node.name for node in self.source.cluster)
                self.plan = launch_files.record(self.ledger, self.options.files, self.source.cluster, names)
                self.plan["reference_job"] = self.source.not_started() or launch.started_by(self.options)
        except PreflightError as error:
            self.broken_because = str(error)

    def _measuring(self) -> tuple[str, ...]:
        """The checks of this run that bandwidth and training are measured for."""
        jobs = {"bench", "training"}
        return tuple(
            sorted(
                name
                for name, check in self.checks.items()
                if name in self.ledger.expected and jobs & {*check.arguments}
            )
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        """Judge one check, write its findings down, and give pytest its outcome."""
        check = self.checks[id_of(pyfuncitem)]
        others = {name: value for name, value in pyfuncitem.funcargs.items() if name not in OURS}
        guarded = replace(check, function=contained(check.function, is_within_no_exit=True), others=others)
        replaced = self.own.why_replaced(pyfuncitem)
        if replaced:
            judged = [Finding(check.id, Verdict.ERROR, self.source.names, replaced, REPLACED_FIX)]
        else:
            with no_exit():
                judged = self.judge.judge(guarded)
        if check.kind == "rehearsal":
            judged = self._with_what_was_read(judged)
        findings = [counting for finding in judged for counting in self.ledger.record(finding)]
        worst = max(findings, key=lambda finding: SEVERITY[finding.counted], default=None)
        if worst is not None and worst.counted in {Verdict.FAIL, Verdict.ERROR}:
            message = printable(worst.message)  # pytest prints it as it is, with -rA whatever our summary leaves out
            pytest.fail(
                said("{verdict}: {nodes}: {message}", worst.verdict, hosts.fold(worst.nodes), message), pytrace=False
            )
        if worst is not None and worst.verdict is Verdict.SKIP:
            pytest.skip(printable(worst.message))
        return True

    def _with_what_was_read(self, judged: list[Finding]) -> list[Finding]:
        """What the rehearsal and the rules on its files both say becomes one finding, that of the rehearsal."""
        rehearsal, cast = self.source.measured().rehearsal, self.options.cast
        if rehearsal is None or cast is None or not self.options.launch:
            return judged
        one_cause = OneCause(self.options.files, cast, rehearsal.causes)
        whole, taken = one_cause.folded(judged, self.ledger.findings)
        for finding in taken:
            self.ledger.take_back(finding)
        return whole

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A check that pytest skipped or broke before its body gets its verdict here."""
        name = id_of_node(report.nodeid)
        if report.when != "setup" or report.passed or name not in self.checks:
            return
        skipped = report.skipped and isinstance(report.longrepr, tuple)
        words = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else report.longreprtext.splitlines()[-1]
        verdict = Verdict.SKIP if skipped else Verdict.ERROR
        self.ledger.record(Finding(name, verdict, self.source.names, words))

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """No dots: the summary says what there is to say; -v still names every check."""
        if report.when == "call" or report.outcome != "passed":
            return report.outcome, "", report.outcome.upper()
        return None

    @pytest.hookimpl(trylast=True)
    def pytest_keyboard_interrupt(self) -> None:
        """pytest ends with a line about the exception; make it say what happened."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        crash = getattr(getattr(reporter, "_keyboardinterrupt_memo", None), "reprcrash", None)
        if crash is not None and self.stopping.number:
            crash.message = self._why_unfinished()

    # -- the end

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """End the nodes, close the ledger, write the report; then, last of all, set the exit code."""
        self.source.close()
        self.stopping.settle()
        if session.exitstatus == pytest.ExitCode.USAGE_ERROR:
            self.exit_code = EXIT_USAGE
            folder.withdraw(self.options)
        else:
            if self.config.option.collectonly:
                self.ledger.expected.clear()  # collecting judges nothing
            self.ledger.close(self._why_unfinished(), self.source.names)
            self._look_for_changes()
            choice = self.judge.crew.choice(self.source, self.ledger.findings)
            if choice is not None and choice.is_complete:
                self.ledger.chosen = frozenset(choice.nodes)
            self.exit_code = self._code(session)
            if self.exit_code == 0:
                self.source.certify(self._measuring())
            if not self.config.option.collectonly:
                ending = folder.Ending(self.exit_code, self.today, self.plan, self.baseline, self.verbosity, choice)
                self._write(ending)
        self.stopping.written(self.exit_code)
        self.config.stash[ENDED] = self.exit_code
        if self.exit_code and self.options.command[0] == "pytest" and is_whole_program(self.options.command):
            self._guards.close()
            keep(self.exit_code)
        self._tell_others()
        try:
            return (yield)
        finally:
            session.exitstatus = self.exit_code

    def _write(self, ending: folder.Ending) -> None:
        """The report; where it cannot be drawn, the one that was written at the start stands, and says 3 as we do."""
        try:
            self.exit_code, self.text = folder.write_finished(
                self.source, self.ledger, self.options, ending, on_written=self.stopping.written
            )
        except Exception:
            traceback.print_exc()
            self.exit_code = EXIT_NOT_MEASURED

    def _look_for_changes(self) -> None:
        """What gave the verdicts must be what it was before code of others ran."""
        self.changed = self.picture.changed()
        if not self.changed and self.ledger.waive is not self._waive:
            self.changed = "Ledger.waive"
        if self.changed:
            words = said("{changed} was replaced during the run: trust none of its verdicts", self.changed)
            print(said("preflight: {words}", words), file=sys.stderr)
            with contextlib.suppress(Exception):  # it may be this that was replaced; the exit code does not need it
                self.ledger.record(Finding(CODE_CHECK, Verdict.ERROR, (), words, REPLACED_FIX))

    def _tell_others(self) -> None:
        """Whatever becomes of the notice: report and exit code stand by now."""
        stored_at = self.options.folder / FILES["json"]
        if self.options.notify and not self.config.option.collectonly and stored_at.is_file():
            try:
                failed = notify(self.options.notify, read_json(stored_at))
            except UsageError as error:
                failed = said("warning: --notify: {error}", error)
            self.text += f"{failed}\n" if failed else ""

    def pytest_unconfigure(self) -> None:
        """Give back what is the process's own, where there is more to it than this run."""
        self._guards.close()
        if not is_whole_program(self.options.command):
            self.stopping.restore()

    def _why_unfinished(self) -> str:
        stopped_by = self.stopping.number
        if stopped_by == signal.SIGALRM:
            return said("the deadline of {deadline_seconds:g} s was reached", self.options.deadline_seconds)
        if stopped_by:
            return said("stopped by {name}", signal.Signals(stopped_by).name)
        if self.collection_errors:
            return said("{collection_errors} could not be collected", self.collection_errors[0])
        return self.broken_because or "the run ended before this check"

    def _code(self, session: pytest.Session) -> int:
        stopped_by = self.stopping.number
        if stopped_by and stopped_by != signal.SIGALRM:
            return INTERRUPT_CODES[signal.Signals(stopped_by)]
        code = self.ledger.exit_code(fail_on_warn=self.options.fail_on_warn)
        broken = (
            bool(self.collection_errors or self.changed)
            or session.exitstatus == pytest.ExitCode.INTERNAL_ERROR
            or stopped_by
        )
        return EXIT_NOT_MEASURED if broken and code in {0, 5} else code

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The verdict, what is wrong where, and what to do."""
        if self.verbosity != "line":
            terminalreporter.write_line("")
        terminalreporter.write_line(self.text)
        if self.json_target and self.exit_code != EXIT_USAGE:
            terminalreporter.write_line(folder.json_for(self.options, self.json_target))


def _quiet_pytest(config: pytest.Config) -> None:
    """Our summary says what failed; pytest's own only where the user wants it."""
    if config.option.tbstyle == "auto":
        config.option.tbstyle = "no"
    if config.option.reportchars == "fE":
        config.option.reportchars = "N"


def _quiet_reporter(config: pytest.Config) -> None:
    """No lines of files with percentages and without dots, but where -v names every check anyway."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and config.get_verbosity() <= 0:
        reporter.showfspath = False
        reporter._show_progress_info = False  # noqa: SLF001 - an ini value of the user's, which is read by now
