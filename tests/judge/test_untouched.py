"""Is it noticed that something of ours was exchanged while a run was under way?"""

from __future__ import annotations

import enum
import sys
import types

import pytest

from preflight.judge.untouched import Picture

CODE = """
import enum

LIMITS = {"mtu": (1500, [9000])}
NAMES = ["a", "b"]

def judge(node, least=1, *, most=2):
    return least

def other(node):
    return 7

class Kind(enum.Enum):
    GOOD = 1
    BAD = 2

class Finding:
    size = 3

    @property
    def counted(self):
        return 1

    @counted.setter
    def counted(self, value):
        pass

    @staticmethod
    def of(node):
        return 2

    @classmethod
    def made(cls):
        return 3
"""


@pytest.fixture
def module(monkeypatch):
    """A module of ours, loaded."""
    made = types.ModuleType("preflight.made_up")
    exec(CODE, vars(made))
    monkeypatch.setitem(sys.modules, "preflight.made_up", made)
    return made


CHANGES = {
    "judge": lambda m: setattr(m, "judge", m.other),
    "judge.__code__": lambda m: setattr(m.judge, "__code__", m.other.__code__),
    "judge.__defaults__": lambda m: setattr(m.judge, "__defaults__", (7,)),
    "judge.most": lambda m: m.judge.__kwdefaults__.update(most=7),
    "LIMITS": lambda m: m.LIMITS.update(mtu=7),
    "LIMITS.2": lambda m: m.LIMITS.update(rate=7),
    "LIMITS.1.1": lambda m: m.LIMITS["mtu"][1].append(7),
    "NAMES": lambda m: m.NAMES.pop(),
    "Kind.BAD.value": lambda m: setattr(m.Kind.BAD, "_value_", 1),
    "Finding.size": lambda m: setattr(m.Finding, "size", 7),
    "Finding.counted": lambda m: setattr(m.Finding, "counted", property(lambda self: 7)),
    "Finding.of": lambda m: setattr(m.Finding, "of", staticmethod(lambda node: 7)),
    "Finding.of.__code__": lambda m: setattr(m.Finding.of, "__code__", m.other.__code__),
    "Finding.made.__code__": lambda m: setattr(m.Finding.made.__func__, "__code__", m.other.__code__),
    "Finding.counted.__code__": lambda m: setattr(m.Finding.counted.fget, "__code__", m.other.__code__),
    "Finding.counted.__defaults__": lambda m: setattr(m.Finding.counted.fset, "__defaults__", (7,)),
    "Finding.__getattribute__": lambda m: setattr(m.Finding, "__getattribute__", lambda self, name: 7),
    "gone": lambda m: delattr(m, "judge"),
    "module": lambda m: sys.modules.update({"preflight.made_up": types.ModuleType("preflight.made_up")}),
}


@pytest.fixture
def alone(module, monkeypatch):
    """That module, and of ours no other: a picture of all takes long."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "preflight" and name != module.__name__]:
        monkeypatch.delitem(sys.modules, name)
    return module


@pytest.mark.parametrize("name", CHANGES)
def test_what_was_exchanged_is_named(alone, name):
    """A function, its code or defaults, a row of a table, a member, a method, a module."""
    picture = Picture()
    assert picture.changed() == ""
    CHANGES[name](alone)
    places = {"LIMITS.2": "LIMITS", "LIMITS.1.1": "LIMITS.1.1", "gone": "judge", "module": ""}
    assert picture.changed().removeprefix("preflight.made_up") == f".{places.get(name, name)}".rstrip(".")


def test_what_is_imported_or_made_later_is_no_exchange(module):
    """A module more, a name more, an enum member looked up, a class that somebody derives."""
    picture = Picture()
    sys.modules["preflight.made_up_later"] = types.ModuleType("preflight.made_up_later")
    try:
        module.submodule = sys.modules["preflight.made_up_later"]
        assert module.Kind(2) is module.Kind.BAD
        type("Derived", (module.Finding,), {})().counted  # noqa: B018
        enum.Enum("Other", ["ONE"])
        assert picture.changed() == ""
    finally:
        del sys.modules["preflight.made_up_later"]
