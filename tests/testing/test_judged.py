"""Can a site test its own check with a made-up cluster, and is the example of the documentation true?"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import preflight.testing
from preflight.judge.settings import Settings
from preflight.testing import healthy, judged, roce
from preflight.testing.judged import check_of


def enough_memory(node):
    """A node has 100 GiB of memory free.

    Otherwise the loader is killed.
    Fix: `free -h` on the nodes named.
    """
    assert node.kernel.memory_available_bytes >= 100 << 30, "less than 100 GiB free"


@pytest.mark.advisory
def same_kernel(cluster):
    """One kernel."""
    cluster.same(lambda node: node.identity.kernel, "kernel", fix="update it")


def run_example(folder: Path, check: str, test: str) -> str:
    """What pytest says of a test beside a check of a site: "1 passed"."""
    (folder / "site_checks").mkdir(exist_ok=True)
    (folder / "site_checks/test_site.py").write_text(check)
    (folder / "test_own.py").write_text(test)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={folder}", "test_own.py"]
    done = subprocess.run(argv, check=False, cwd=folder, capture_output=True, text=True, timeout=60)
    (words,) = re.findall(r"\d+ (?:passed|failed)", done.stdout.splitlines()[-1])
    return words


def test_the_example_of_the_documentation_is_true(tmp_path):
    """Both files as they are written there, run by pytest as a site would run them."""
    blocks = re.findall(r"(?:^    .*\n|^\n)+", preflight.testing.__doc__, re.MULTILINE)
    check, test = (textwrap.dedent(block) for block in blocks if "def test_" in block)
    assert run_example(tmp_path, check, test) == "1 passed"
    assert run_example(tmp_path, check.replace("== 0", ">= 0"), test) == "1 failed"


def test_the_example_of_the_page_is_true(tmp_path):
    """Its check, and the test of it."""
    section = (Path(__file__).parents[2] / "docs/site-checks.md").read_text(encoding="utf-8")
    blocks = [textwrap.dedent(block) for block in re.findall(r"(?:^    .*\n|^\n)+", section, re.MULTILINE)]
    check, test = (block for block in blocks if "def test_" in block)
    assert run_example(tmp_path, check, test) == "1 passed"


def test_the_broken_nodes_are_named_with_message_and_fix():
    """And no others; a healthy cluster passes."""
    assert judged(enough_memory, healthy()).passes
    found = judged(enough_memory, healthy(4).broken(("node2", "node4"), "kernel", memory_available_bytes=1))
    assert found.fails_on == ("node2", "node4")
    assert found.passes_on == ("node1", "node3")
    assert (found.message, found.fix) == ("less than 100 GiB free", "`free -h` on the nodes named.")
    assert not found.passes


def test_an_advisory_check_warns():
    """Its mark is read from the function."""
    found = judged(same_kernel, healthy().broken("node3", "identity", kernel="5.4.0"))
    assert (found.warns_on, found.fails_on) == (("node3",), ())
    assert found.message == "kernel: 6.1.0 on node[1-2], 5.4.0 on node3"


def test_what_could_not_be_read_is_an_error_and_what_is_nowhere_is_skipped():
    """A node that did not answer is an error too, and the others are judged."""
    lost = judged(enough_memory, healthy().without("node2", "kernel", "timed out").unreached("node3"))
    assert (lost.passes_on, lost.errors_on) == (("node1",), ("node3", "node2"))
    assert "timed out" in lost.message

    def some_gpu(node):
        """It has a GPU."""
        assert node.gpu.models()

    assert judged(some_gpu, healthy(2)).skips_on == ("node1", "node2")
    assert judged(some_gpu, roce(2)).passes


def test_fixtures_beside_the_main_one_are_given():
    """Settings, and what the site's own conftest.py would make."""

    def as_wanted(node, settings, wanted):
        """It is as wanted."""
        assert node.identity.cpu_count == wanted
        assert settings == Settings()

    assert judged(as_wanted, healthy(1), wanted=64).passes
    assert judged(as_wanted, healthy(1), settings=Settings(), wanted=65).fails_on == ("node1",)


def test_pytests_own_words_are_understood():
    """pytest.skip in a check is a skip, as in a run."""

    def never(node):
        """It never applies."""
        pytest.skip("no such thing here")

    assert judged(never, healthy(2)).skips_on == ("node1", "node2")


def test_a_check_is_called_by_its_file_and_name():
    """As a run calls it."""
    assert check_of(enough_memory).id == "judged.enough_memory"
    assert check_of(same_kernel).kind == "cluster"


def test_it_is_cheap_to_import():
    """No torch, and nothing that needs a network."""
    code = "import sys, preflight.testing as t; t.healthy(); print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
