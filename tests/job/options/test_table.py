"""Is a field of a dataclass an option, with the words that a parser and --help need?"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from preflight.job.options.options import OPTIONS as OF_A_RUN
from preflight.job.options.table import add_options, canonical, destination, option, options_of

RUN, BENCH = frozenset({"run"}), frozenset({"bench"})


@dataclass(frozen=True)
class Sample:
    """A value, a flag, a list, a number, a choice, a file, and a field that is no option."""

    env: tuple[str, ...] = option((), "job", "A variable.", RUN | BENCH, metavar="NAME=VALUE")
    dry_run: bool = option(False, "job", "Contact no host.", RUN)
    deadline: float | None = option(None, "time", "The limit.", RUN, metavar="SECONDS", number=float, convert=float)
    backend: str = option("auto", "job", "The backend.", RUN, choices=("auto", "gloo"))
    json: str = option("", "time", "JSON.", RUN, metavar="FILE", file_or_stdout=True)
    bench_size: int = option(8, "sizes", "The size.", BENCH, letter="-b", metavar="SIZE", convert=int, shown="8")
    from_run: str = option("", "time", "A run.", RUN, name="from", metavar="RUN")
    run_id: str = "x"


OPTIONS = options_of(Sample)


def parsed(verb: str, *words: str) -> dict:
    parser = argparse.ArgumentParser()
    add_options(parser, OPTIONS, verb)
    return vars(parser.parse_args(words))


def read(verb: str, *words: str) -> Sample:
    given = {name: value for name, value in parsed(verb, *words).items() if value is not None}
    return Sample(**{name: OPTIONS[name].read(value) for name, value in given.items()})


def test_a_field_made_by_option_is_one_and_no_other():
    """By its name with dashes, or the name that it is given."""
    assert [row.name for row in OPTIONS.values()] == [
        "env",
        "dry-run",
        "deadline",
        "backend",
        "json",
        "bench-size",
        "from",
    ]
    assert OPTIONS["from_run"].field == "from_run"


def test_what_is_not_given_is_none_and_the_default_of_the_field_holds():
    """So a second name of the same option cannot hide what the first was given."""
    assert set(parsed("run").values()) == {None}
    assert read("run") == Sample()


def test_a_verb_has_its_own_options_alone():
    """Under the names that are plain there; the others are unknown."""
    assert set(parsed("run")) == {"env", "dry_run", "deadline", "backend", "json", "from_run"}
    assert read("bench", "--size", "16").bench_size == read("bench", "-b", "16").bench_size == 16


def test_values_are_read_as_the_field_has_them():
    """A list is a tuple and adds up, a number is one, a flag is True; --json alone means here."""
    assert read("run", "--env", "A=1", "--env", "B=2").env == ("A=1", "B=2")
    assert read("run", "--deadline", "60").deadline == 60.0
    assert read("run", "--dry-run").dry_run is True
    assert read("run", "--json").json == "-"
    assert read("run", "--json", "out.json").json == "out.json"
    assert read("run", "--from", "reports/x").from_run == "reports/x"


def test_help_has_a_heading_for_each_subject_and_the_defaults():
    """The choices stand beside the name; a flag has no default to show."""
    parser = argparse.ArgumentParser()
    add_options(parser, OPTIONS, "run")
    text = parser.format_help()
    assert "\njob:\n" in text
    assert "\ntime:\n" in text
    assert "sizes" not in text
    assert "--backend {auto,gloo}\n" in text
    assert "The backend. Default: auto." in text
    assert "Contact no host.\n" in text


def test_pytest_knows_an_option_by_a_name_of_its_own():
    """And leaves the choices to us, which names what was wanted on one line."""
    row = OPTIONS["backend"]
    assert (canonical(row), destination(OPTIONS["from_run"])) == ("--preflight-backend", "preflight_from_run")
    assert row.words(with_choices=False)["metavar"] == "{auto,gloo}"
    assert "choices" not in row.words(with_choices=False)


def test_hosts_given_again_are_more_hosts():
    """A shell makes --hosts=node1 --hosts=node2 of --hosts=node{1..2}: none of them is lost."""
    parser = argparse.ArgumentParser()
    add_options(parser, OF_A_RUN, "run")
    assert parser.parse_args(["--hosts=node1", "--hosts=node2", "--hosts", "node3"]).hosts == "node1,node2,node3"
    assert parser.parse_args([]).hosts is None
