"""The wheel is complete: it runs its checks away from any checkout, and brings no top-level package but its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from preflight import __version__
from tests.workers import in_machine_network

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The wheel of this checkout, unpacked as pip would install it."""
    folder = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run(in_machine_network(words), check=True, timeout=300, capture_output=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(folder / "site")
    return folder / "site"


def test_the_wheel_holds_one_package(unpacked):
    """preflight and its metadata; the checks live inside it."""
    names = sorted(path.name for path in unpacked.iterdir())

    assert [name for name in names if not name.endswith(".dist-info")] == ["preflight"]
    assert [name for name in names if name.startswith("cluster_preflight-")]
    assert len(list((unpacked / "preflight" / "checks").glob("test_*.py"))) >= 12
    assert (unpacked / "preflight" / "pytest.ini").is_file()


def test_the_wheel_is_typed_and_says_what_it_is_for(unpacked):
    """py.typed stands in the package, and the metadata has its Pythons, its name and no link to an index."""
    (metadata,) = unpacked.glob("*.dist-info/METADATA")
    words = metadata.read_text(encoding="utf-8")

    assert (unpacked / "preflight" / "py.typed").is_file()
    for python in ("3.10", "3.11", "3.12", "3.13"):
        assert f"Classifier: Programming Language :: Python :: {python}\n" in words
    assert "Classifier: Typing :: Typed\n" in words
    assert "Project-URL: " not in words  # nothing is published: an index has nothing to link to


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """What `python -m build` makes of this checkout: an sdist, and from it a wheel."""
    folder = tmp_path_factory.mktemp("dist")
    words = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    subprocess.run(in_machine_network(words), check=True, timeout=300, capture_output=True)
    return folder


def test_a_release_is_built_by_one_command_and_runs_in_a_clean_environment(released, tmp_path):
    """An sdist, and a wheel made of it that reads this machine away from the checkout and its packages."""
    names = sorted(path.name for path in released.iterdir())
    assert names == [f"cluster_preflight-{__version__}-py3-none-any.whl", f"cluster_preflight-{__version__}.tar.gz"]
    python = tmp_path / "clean" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=True, timeout=120)
    wheel = [str(released / names[0]), "-c", str(ROOT / "constraints.txt")]
    subprocess.run(
        in_machine_network([str(python), "-m", "pip", "install", "-q", *wheel]),
        check=True,
        timeout=300,
        capture_output=True,
    )
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    said = subprocess.run(
        [python.with_name("preflight"), "--version"],
        env=clean,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == f"preflight {__version__}\n"
    facts = [python.with_name("preflight"), "facts", "--json"]
    done = subprocess.run(facts, env=clean, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "local" in json.loads(done.stdout)


def test_the_changes_name_the_version_that_is_built():
    """What is released has its section, the newest one after what is not."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(.+?)\]", text, re.MULTILINE)[:2] == ["Unreleased", __version__]


def test_the_wheel_runs_away_from_a_checkout(unpacked, tmp_path):
    """`preflight run` from an unrelated folder judges this machine with the checks of the wheel."""
    done = subprocess.run(
        [sys.executable, "-m", "preflight", "run", "--profile=quick", "--report-dir=report"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "report" / "report.json").read_text())["verdict"] == "pass"
