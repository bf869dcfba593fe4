"""git-lfs pointers where data should be."""

from __future__ import annotations

from preflight.launch.read import read_texts
from preflight.launch.slips.data import alike_on_nodes, no_pointers, paths_of, paths_on_nodes
from tests.launch.samples import torchrun

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 123456\n"


def test_a_pointer_among_the_data(tmp_path):
    """The first pointer is named; real files are not."""
    (tmp_path / "data" / "train").mkdir(parents=True)
    (tmp_path / "data" / "train" / "a.mp4").write_text(POINTER)
    files = read_texts({"n.sh": torchrun(program="t.py --dataset_base_path data/train --output_path out/x")})
    (found,) = no_pointers(files, str(tmp_path))
    assert found.check == "launch.data_is_no_lfs_pointer"
    assert found.fix.startswith("`git lfs install && git -C data/train lfs pull`; where it is no clone, `modelscope")
    (tmp_path / "data" / "train" / "a.mp4").write_text("x" * 2000)
    assert list(no_pointers(files, str(tmp_path))) == []


def test_the_paths_that_a_program_reads():
    """Options that name data, models and configurations; what is written is left out."""
    plan = read_texts({"n.sh": torchrun(program="t.py --model_path=/m/a --out_dir /o/b --lr 1/2 --data d/c")}).plans[0]
    assert [path.value for path in paths_of(plan)] == ["/m/a", "d/c"]


def test_the_paths_that_every_node_must_have():
    """Full ones only, each once, the program's own included."""
    files = read_texts({"n.sh": torchrun(program="/code/t.py --model_path=/m/a --out_dir /o/b --data d/c --meta /m/a")})
    assert paths_on_nodes(files) == ("/code/t.py", "/m/a")


def test_programs_and_configurations_are_compared_by_themselves():
    """What the files name in full and no node has for itself; data folders and checkpoints are not."""
    line = torchrun(program="/w/train.py --config /w/c.yaml --data_path /data/set --ckpt /w/last.pt")
    assert alike_on_nodes(read_texts({"n.sh": line})) == ("/w/train.py", "/w/c.yaml")


def test_paths_below_the_folder_that_the_script_enters_are_full_ones():
    """As beginners write them; a hub's name is no path, and a `cd` that is not told in full leaves the folder open."""
    command = torchrun(program="tools/train.py --config_path configs/a.yaml --model_path Qwen/Qwen2-7B --data ./set")
    launch = command.partition("\n")[2]
    files = read_texts({"n.sh": f"cd /srv/sana\n{launch}"})
    assert paths_on_nodes(files) == ("/srv/sana/tools/train.py", "/srv/sana/configs/a.yaml", "/srv/sana/set")
    assert alike_on_nodes(files) == ("/srv/sana/tools/train.py", "/srv/sana/configs/a.yaml")
    below = read_texts({"n.sh": f"cd /srv && cd sana/tools/..\n{launch}"})
    assert paths_on_nodes(below)[0] == "/srv/sana/tools/train.py"
    for away in ("cd $1", 'cd "$(dirname $0)"', "cd /srv; cd $1", "cd ~/sana"):
        assert paths_on_nodes(read_texts({"n.sh": f"{away}\n{launch}"})) == (), away
    there = launch.replace("torchrun", "ssh node2 torchrun")
    assert paths_on_nodes(read_texts({"n.sh": f"cd /srv\n{there}"})) == ()
