"""How does pytest become the runner of the checks: options, and nothing more unless --hosts or --from is given?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from preflight.errors import UsageError
from preflight.options.table import BENCH_OPTIONS, OPTIONS, Chosen, canonical, destination, for_pytest

SHARED = "hosts"  # the one short option that another plugin (pytest-testinfra) may own with the same meaning


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options under the names that nobody else has."""
    group = parser.getgroup("preflight", "preflight: multi-node checks")
    for name, attributes in {**OPTIONS, **BENCH_OPTIONS}.items():
        group.addoption(canonical(name), dest=destination(name), **for_pytest(attributes))
    group.addoption("--preflight-tells", dest="preflight_tells", default="", help="summary, line or checks")
    group.addoption("--preflight-run-id", dest="preflight_run_id", default="", help="the name of the run")
    group.addoption("--preflight-subjects", dest="preflight_subjects", default="", help="only these subjects (a,b)")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """The short names, late: only where no other plugin has taken them by now."""
    del args
    group = parser.getgroup("preflight")
    groups = parser._groups  # noqa: SLF001 - the only list of what other plugins have registered
    taken = {name for others in groups for option in others.options for name in option.names()}
    for name, attributes in OPTIONS.items():
        # The namespace of options known so far tells of those that a plugin added without a group.
        free = f"--{name}" not in taken and not hasattr(early_config.known_args_namespace, _short(name))
        if free:
            # No default: the short name must not hide what the canonical one was given.
            group.addoption(f"--{name}", dest=_short(name), **{**for_pytest(attributes), "default": None})
    early_config.stash[TAKEN] = tuple(name for name in OPTIONS if f"--{name}" in taken)


TAKEN = pytest.StashKey[tuple[str, ...]]()


def _short(name: str) -> str:
    return name.replace("-", "_")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the checks' plugin when hosts or a stored run are given; otherwise do nothing at all."""
    config.addinivalue_line("markers", "advisory: a broken assertion of this check is a warning")
    config.addinivalue_line("markers", "needs(privilege): facts of this check may be denied without it")
    if getattr(config, "workerinput", None) is not None:
        return
    chosen = chosen_options(config)
    if chosen["hosts"] is None and chosen["from"] is None:
        return
    if config.getoption("numprocesses", None) or config.getoption("dist", "no") not in {"no", None}:
        raise pytest.UsageError("--hosts with -n: the checks of one cluster are one run; leave out -n and --dist")
    from preflight.judge.session import Checking

    try:
        config.pluginmanager.register(Checking.configured(config, chosen), "preflight-checking")
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = [str(checks_folder())]


def chosen_options(config: pytest.Config) -> Chosen:
    """The options as given, under whichever of their two names."""
    taken = config.stash.get(TAKEN, ())
    values: dict[str, Any] = {}
    for name, attributes in {**OPTIONS, **BENCH_OPTIONS}.items():
        default = attributes.get("default", False if attributes.get("action") == "store_true" else None)
        value = config.getoption(destination(name), default)
        short = config.getoption(_short(name), None) if name not in taken or name == SHARED else None
        values[_short(name)] = value if short is None or value != default else short
    values["subjects"] = config.getoption("preflight_subjects", "")
    values["run_id"] = config.getoption("preflight_run_id", "")
    values["tells"] = config.getoption("preflight_tells", "")
    values["taken"] = taken
    return Chosen(values)


def checks_folder() -> Path:
    """The checks that come with preflight: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).parent
    inside = package / "checks"
    return inside if inside.is_dir() else package.parent / "checks"
