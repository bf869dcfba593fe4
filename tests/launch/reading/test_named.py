"""Files that a script names."""

from __future__ import annotations

from preflight.launch.read import read_files
from preflight.launch.rules.check import check_files
from tests.launch.samples import config


def test_a_script_brings_its_configuration(tmp_path):
    """--config_file beside the script is read though it was not given, and options of the command win."""
    (tmp_path / "c.yaml").write_text(config(num_processes="15"))
    script = tmp_path / "n.sh"
    script.write_text("accelerate launch --config_file c.yaml --num_machines 3 t.py\n")
    files = read_files([str(script)])
    assert check_files(files) == ()
    assert files.plans[0].processes_per_node.value == 5
    assert files.plans[0].world_size.file.endswith("c.yaml")
