"""Files that a script names."""

from __future__ import annotations

from preflight.launch.read import read_files
from preflight.launch.rules.check import check_files
from tests.launch.samples import config


def test_the_files_of_other_machines_beside_one_that_is_named_twice(tmp_path):
    """Two scripts over node1.yaml: node2.yaml lies beside it, and is the one that the second is to name."""
    for number in (1, 2):
        (tmp_path / f"node{number}.yaml").write_text(config(number - 1))
        (tmp_path / f"node{number}.sh").write_text("accelerate launch --config_file node1.yaml t.py\n")
    scripts = [str(tmp_path / f"node{number}.sh") for number in (1, 2)]
    found = check_files(read_files(scripts))
    assert {one.fix for one in found} == {f"--config_file node2.yaml in {scripts[1]}"}
    (tmp_path / "node3.yaml").write_text("a: [\n")  # nobody named it: what is wrong in it is no matter
    assert check_files(read_files(scripts)) == found
    (tmp_path / "node3.yaml").unlink()
    (tmp_path / "node2.sh").write_text("accelerate launch --config_file node2.yaml t.py\n")
    assert check_files(read_files(scripts)) == ()


def test_a_script_brings_its_configuration(tmp_path):
    """--config_file beside the script is read though it was not given, and options of the command win."""
    (tmp_path / "c.yaml").write_text(config(num_processes="15"))
    script = tmp_path / "n.sh"
    script.write_text("accelerate launch --config_file c.yaml --num_machines 3 t.py\n")
    files = read_files([str(script)])
    assert check_files(files) == ()
    assert files.plans[0].processes_per_node.value == 5
    assert files.plans[0].world_size.file.endswith("c.yaml")
