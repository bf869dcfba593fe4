"""How is a field of a dataclass also an option of a command line?"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from preflight.said import joined, said

ROW = "option"  # the key in the metadata of a field


@dataclass(frozen=True)
class Names(Collection[str]):
    """Names that are looked up when they are needed: what knows them takes long to import."""

    look_up: Callable[[], tuple[str, ...]]

    def __contains__(self, name: object) -> bool:
        return name in self.look_up()

    def __iter__(self) -> Iterator[str]:
        return iter(self.look_up())

    def __len__(self) -> int:
        return len(self.look_up())


class Joined(argparse.Action):
    """Values of one option, put together by commas."""

    def __call__(self, _parser: Any, namespace: argparse.Namespace, values: Any, _option: str | None = None) -> None:
        """Add a value to those before it."""
        before = getattr(namespace, self.dest, None)
        setattr(namespace, self.dest, f"{before},{values}" if before else values)


@dataclass(frozen=True)
class Option:
    """One option: what --help and a parser need to know about it."""

    subject: str  # the heading that it stands under in --help
    help: str  # "%(choices)s" in it stands for the choices
    verbs: frozenset[str]
    metavar: str = ""
    choices: Collection[str] = ()
    letter: str = ""  # a short form, "-b"
    shown: str = ""  # the default as --help has it; "" for a flag, and where nothing is the default
    file_or_stdout: bool = False  # the value may be left out: then it is "-"
    number: type[float | int] | None = None
    convert: Callable[[Any], Any] = str  # what a parser gives -> the value of the field; raises UsageError
    is_flag: bool = False
    is_list: bool = False
    is_live: bool = False  # it says what nodes are asked, or how: a stored run has asked them
    is_common: bool = False  # one of the five that everybody needs, which --help describes; --help-all has every one
    is_joined: bool = False  # given again, it goes on after a comma: what a shell makes of --hosts=node{1..3}
    name: str = ""  # in pytest, after --preflight-
    field: str = ""  # of the dataclass

    def name_in(self, verb: str) -> str:
        """The name in a verb: bench, where nothing else can be meant, has ``--op`` for ``bench-op``."""
        return self.name.removeprefix(f"{verb}-")

    def words(self, *, with_choices: bool) -> dict[str, Any]:
        """The keywords for argparse's add_argument and pytest's addoption. What is not given is None.

        ``with_choices`` lets the parser refuse other values itself; without, Options.checked does.
        """
        text = joined([self.help, said("Default: {shown}.", self.shown)], " ") if self.shown else self.help
        words: dict[str, Any] = {"default": None, "help": text}
        if self.is_flag:
            return {**words, "action": "store_true"}
        if isinstance(self.choices, Names):
            words["metavar"] = "NAME"
        elif not (self.choices and with_choices):
            words["metavar"] = self.metavar or f"{{{','.join(self.choices)}}}"
        if self.choices != () and with_choices:
            words["choices"] = self.choices
        elif "%(choices)s" in text:
            words["help"] = text.replace("%(choices)s", "see `preflight train --help`")
        if self.is_list:
            words["action"] = "append"
        if self.is_joined:
            words["action"] = Joined
        if self.file_or_stdout:
            words |= {"nargs": "?", "const": "-"}
        if self.number is not None:
            words["type"] = self.number
        return words

    def read(self, given: Any) -> Any:
        """The value of the field for what a parser gave. Raises UsageError."""
        if self.is_flag:
            return given
        return tuple(self.convert(one) for one in given) if self.is_list else self.convert(given)


def option(default: Any, subject: str, text: str, verbs: frozenset[str], **words: Any) -> Any:
    """A field that is also an option; `default` may be a function that makes it, `words` are fields of Option."""
    words = {"shown": default if isinstance(default, str) else "", **words}
    row = Option(subject, text, verbs, is_flag=default is False, is_list=default == (), **words)
    made: dict[str, Any] = {"default_factory": default} if callable(default) else {"default": default}
    return dataclasses.field(**made, metadata={ROW: row})


def options_of(kind: type[Any]) -> dict[str, Option]:
    """The options of a dataclass, by field and in its order."""
    return {
        field.name: dataclasses.replace(
            field.metadata[ROW],
            field=field.name,
            name=field.metadata[ROW].name or field.name.replace("_", "-"),
        )
        for field in dataclasses.fields(kind)
        if ROW in field.metadata
    }


def add_options(parser: argparse.ArgumentParser, options: Mapping[str, Option], verb: str) -> None:
    """Give a verb's parser the options that it takes, each under the heading of its subject."""
    groups: dict[str, Any] = {}
    for row in options.values():
        if verb in row.verbs:
            if row.subject not in groups:
                groups[row.subject] = parser.add_argument_group(row.subject)
            names = [row.letter, f"--{row.name_in(verb)}"] if row.letter else [f"--{row.name_in(verb)}"]
            groups[row.subject].add_argument(*names, dest=row.field, **row.words(with_choices=True))


def words_of(options: Mapping[str, Option], values: Mapping[str, Any], verb: str) -> list[str]:
    """The words of a verb's command line that give these values, by field; what is None or False was not given."""
    words: list[str] = []
    for field, row in options.items():
        value, name = values.get(field), f"--{row.name_in(verb)}"
        if row.is_flag:
            words += [name] if value else []
        elif value is not None:
            words += [f"{name}={one}" for one in (value if row.is_list else [value])]
    return words


def canonical(row: Option) -> str:
    """The name in pytest that no other plugin has."""
    return f"--preflight-{row.name}"


def destination(row: Option) -> str:
    """Where pytest's parser keeps the canonical option."""
    return f"preflight_{row.field}"
