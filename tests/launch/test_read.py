"""Files of every kind, alone and named by each other."""

from __future__ import annotations

import pytest

from preflight.errors import UsageError
from preflight.launch.read import read_files
from preflight.launch.rules.check import check_files
from tests.launch.samples import config, judged


def test_a_script_brings_its_configuration(tmp_path):
    """--config_file beside the script is read though it was not given, and options of the command win."""
    (tmp_path / "c.yaml").write_text(config(num_processes="15"))
    script = tmp_path / "n.sh"
    script.write_text("accelerate launch --config_file c.yaml --num_machines 3 t.py\n")
    files = read_files([str(script)])
    assert check_files(files) == ()
    assert files.plans[0].processes_per_node.value == 5
    assert files.plans[0].world_size.file.endswith("c.yaml")


def test_globs_and_files_that_are_not_there(tmp_path):
    """A pattern that fits nothing is a usage error."""
    (tmp_path / "n0.yaml").write_text(config(0))
    (tmp_path / "n1.yaml").write_text(config(0))
    files = read_files([str(tmp_path / "n*.yaml")])
    assert len(files.files) == 2
    assert [found.check for found in check_files(files)] == ["launch.ranks_are_distinct"]
    for bad in ("missing.sh", "none*.yaml", ""):
        with pytest.raises(UsageError):
            read_files([str(tmp_path / bad)])


def test_what_is_no_launch_file_is_skipped_with_a_reason():
    """Python, an empty file, foreign YAML."""
    for name, text in (("a.py", "x=1\n"), ("a.sh", "\n"), ("a.yaml", "on: push\n"), ("a.sh", "ls\n")):
        (found,) = judged({name: text})
        assert (found.check, str(found.verdict)) == ("launch.file_is_judged", "skip")
