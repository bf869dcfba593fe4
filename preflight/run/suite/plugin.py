"""How does pytest become the runner of the checks: options, and nothing more unless --hosts or --from is given?"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

import pytest

from preflight.job.options.options import OPTIONS, Options
from preflight.job.options.table import Option, canonical, destination
from preflight.run.suite.existing import checks_folder
from preflight.said.errors import PreflightError, UsageError

__all__ = ["checks_folder"]
LEAVING = "preflight.run.suite.leaving"
pytest_plugins = (LEAVING,)
CHECKING = "preflight-checking"
SHARED = "hosts"  # the one short option that another plugin (pytest-testinfra) may own with the same meaning
# The options of bench have no short name in pytest: --bench-op would look like one of a benchmark plugin.
SHORT = {field: row for field, row in OPTIONS.items() if not row.name.startswith("bench-")}
TAKEN = pytest.StashKey[tuple[str, ...]]()


class Door:
    """Lets a verb hand its options to pytest as they are; pytest's own command line then needs none of them."""

    def __init__(self, options: Options) -> None:
        self.options = options

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self, early_config: pytest.Config) -> None:
        """Read our own checks and look at our own code before code of others runs."""
        _look_before(early_config)

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Register the checks' plugin with these options."""
        _add_markers(config)
        _judge(config, self.options)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add every option under the name that no other plugin has."""
    group = parser.getgroup("preflight", "preflight: multi-node checks")
    for row in OPTIONS.values():
        group.addoption(canonical(row), dest=destination(row), **row.words(with_choices=False))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Add the short names late, and only where no other plugin has taken them by now."""
    group = parser.getgroup("preflight")
    groups = parser._groups  # noqa: SLF001 - the only list of what other plugins have registered
    taken = {name for others in groups for option in others.options for name in option.names()}
    for row in SHORT.values():
        # The namespace of options known so far shows those that a plugin added without a group.
        if f"--{row.name}" not in taken and not hasattr(early_config.known_args_namespace, _short(row)):
            group.addoption(f"--{row.name}", dest=_short(row), **row.words(with_choices=False))
    early_config.stash[TAKEN] = tuple(row.name for row in SHORT.values() if f"--{row.name}" in taken)
    from preflight.run.suite.leaving import asks_to_judge  # here and below: pytest loads that one as a plugin

    if asks_to_judge(args):
        _look_before(early_config)


def _look_before(early_config: pytest.Config) -> None:
    from preflight.judge.untouched import Picture
    from preflight.run.suite.own import OwnChecks
    from preflight.run.suite.session import BEFORE  # and with it what runs later, which must be loaded to be looked at

    own = OwnChecks()
    given = early_config.known_args_namespace.file_or_dir
    folder = early_config.invocation_params.dir
    paths = [(folder / str(word).partition("::")[0]).resolve() for word in given]
    if not paths or any(path.is_relative_to(own.folder) or own.folder.is_relative_to(path) for path in paths):
        own.load()
    early_config.stash[BEFORE] = own, Picture()


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, Any, Any]:
    """A conftest or an option that ends pytest without a session of ours must not look like one that passed."""
    code = yield
    values = given_options(config)
    is_asked = values["hosts"] is not None or values["from_run"] is not None
    is_help = config.option.help or config.option.version or getattr(config.option, "markers", False)
    if not is_asked or is_help or values["dry_run"] or code:
        return code
    from preflight.judge.ledger.findings import EXIT_NOT_MEASURED
    from preflight.run.suite.leaving import keep
    from preflight.run.suite.session import ENDED
    from preflight.run.suite.stopping import is_whole_program

    if ENDED in config.stash:
        return code
    print("preflight: pytest ended without having judged anything", file=sys.stderr)
    if is_whole_program(("pytest", *map(str, config.invocation_params.args))):
        keep(EXIT_NOT_MEASURED)
    return EXIT_NOT_MEASURED


def _short(row: Option) -> str:
    return row.name.replace("-", "_")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the checks' plugin when hosts or a stored run are given; otherwise do nothing at all."""
    _add_markers(config)
    if getattr(config, "workerinput", None) is not None:
        return
    values = given_options(config)
    if values["hosts"] is None and values["from_run"] is None:
        return
    from preflight.job.options.launch import parse_run  # here, as other people's pytest sessions need none of it

    # -v of pytest names every check, so that only its -q is left to say how much the summary holds.
    verbosity = "line" if config.option.verbose < 0 else "summary"
    try:
        options = parse_run(values, command=("pytest", *map(str, config.invocation_params.args)), verbosity=verbosity)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    except PreflightError as error:
        pytest.exit(f"preflight: {error}", returncode=3)
    _refuse_stray(config)
    _judge(config, options, taken=config.stash.get(TAKEN, ()))
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = [str(checks_folder())]


def _refuse_stray(config: pytest.Config) -> None:
    """A word that is no file, beside --hosts, was meant as a host."""
    if config.args_source is pytest.Config.ArgsSource.ARGS and not config.option.pyargs:
        for word in config.args:
            if not (config.invocation_params.dir / word.partition("::")[0]).exists():
                raise pytest.UsageError(f"{word!r} is not a file; several hosts are one word: --hosts=node1,node2")


def _add_markers(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "advisory: a broken assertion of this check is a warning")
    config.addinivalue_line("markers", "needs(privilege): facts of this check may be denied without it")


def _judge(config: pytest.Config, options: Options, *, taken: tuple[str, ...] = ()) -> None:
    if config.getoption("numprocesses", None) or config.getoption("dist", "no") not in {"no", None}:
        raise pytest.UsageError("--hosts with -n: the checks of one cluster are one run; leave out -n and --dist")
    from preflight.run.suite.session import Checking

    if config.pluginmanager.is_blocked(LEAVING) or config.pluginmanager.is_blocked(CHECKING):
        raise pytest.UsageError(f"-p no:{LEAVING} and -p no:{CHECKING} would leave out what gives verdicts")
    try:
        config.pluginmanager.register(Checking.configured(config, options, taken=taken), CHECKING)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def given_options(config: pytest.Config) -> dict[str, Any]:
    """The value of every option, by field, under whichever of its two names it was given; None where it was not."""
    taken = config.stash.get(TAKEN, ())
    values: dict[str, Any] = {}
    for field, row in OPTIONS.items():
        value = config.getoption(destination(row), None)
        if value in (None, False) and field in SHORT and (row.name not in taken or row.name == SHARED):
            value = config.getoption(_short(row), None)
        values[field] = value
    return values
