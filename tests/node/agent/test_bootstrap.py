"""Does code that was never on a disk load, win over what is installed, and leave no file?"""

from __future__ import annotations

import importlib.util
import marshal
import subprocess
import sys
from pathlib import Path

import pytest

from preflight.node.agent import bootstrap
from preflight.node.agent.bootstrap import MemoryFinder

TEXT = Path(bootstrap.__file__).read_text()


def node(program: str, folder: Path) -> str:
    """What a bare interpreter prints that runs the file's own text, as on a node, and then `program`."""
    argv = [sys.executable, "-I", "-S", "-B", "-c", TEXT + program]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def finder():
    """A finder with one package and one module, not installed anywhere."""
    sources = {"sent": "", "sent.module": "VALUE = 41\ndef grow():\n    raise ValueError(VALUE)\n"}
    return MemoryFinder(sources, {"sent"}, {})


def test_modules_come_from_text_and_from_code(finder):
    """Both forms that a controller sends load alike."""
    finder.sources["sent.code"] = marshal.dumps(compile("VALUE = 42", "<sent>/sent.code", "exec"))
    for name, value in (("sent.module", 41), ("sent.code", 42)):
        spec = finder.find_spec(name)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert value == module.VALUE
        assert spec.origin == f"<sent>/{name}"
        assert not spec.has_location


def test_a_package_is_told_from_a_module(finder):
    """Only a package may have modules below it."""
    assert finder.find_spec("sent").submodule_search_locations == []
    assert finder.find_spec("sent.module").submodule_search_locations is None


def test_every_other_module_is_left_to_the_node(finder):
    """The finder stands first and says nothing about what it was not sent."""
    assert finder.find_spec("os") is None
    assert finder.find_spec("sent.other") is None


def test_what_is_sent_wins_over_what_is_installed(tmp_path):
    """A preflight on the node, even one that was imported by a site customisation, is never mixed with ours."""
    installed = tmp_path / "preflight" / "node" / "agent"
    installed.mkdir(parents=True)
    (tmp_path / "preflight" / "__init__.py").write_text("print('the stranger was loaded')")
    (installed.parent / "__init__.py").write_text("")
    (installed / "__init__.py").write_text("")
    (installed / "keeper.py").write_text("def main(marker, finder): print('stranger')")
    said = node(
        f"\nsys.path.insert(0, {str(tmp_path)!r})\nimport preflight.node.agent.keeper\n"
        "start({'preflight': '', 'preflight.node': '', 'preflight.node.agent': '', 'preflight.node.agent.keeper':"
        " 'def main(marker, finder): print(marker, finder is sys.meta_path[0])\\nimport sys'}, b'm')\n",
        tmp_path,
    )
    assert said == "the stranger was loaded\nb'm' True\n"


def test_extension_modules_load_without_a_file(tmp_path):
    """A shared object is loaded from a descriptor; nothing appears in a folder."""
    import _netifaces

    binary = Path(_netifaces.__file__)
    said = node(
        f"\nfinder = MemoryFinder({{}}, set(), {{'_netifaces': open({str(binary)!r}, 'rb').read()}})\n"
        "sys.meta_path.insert(0, finder)\nimport _netifaces\n"
        "print(_netifaces.__spec__.origin[:14], len(finder.memfds))\n",
        tmp_path,
    )
    assert said == "/proc/self/fd/ 1\n"
    assert list(tmp_path.iterdir()) == []


def test_the_system_call_does_what_the_missing_function_would():
    """Some distributions built Python without os.memfd_create."""
    import os

    descriptor = bootstrap._memfd_create("name", 1)
    try:
        assert os.write(descriptor, b"x") == 1
        assert "memfd:name" in os.readlink(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def test_a_traceback_shows_the_line(finder):
    """Errors of node code are told with their source, which no file holds."""
    assert finder.get_source("sent.module").startswith("VALUE = 41")
    assert finder.get_source("sent.other") is None
