"""Is a start that its launcher's own parser refuses told, and never taken for one with nothing wrong?"""

from __future__ import annotations

import re

import pytest

from preflight.launch.launchers.accelerate import command as accelerate
from preflight.launch.launchers.torchrun import SPEC
from preflight.launch.read import read_files
from preflight.launch.rules.check import check_files, check_texts

ENDPOINT = "torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_id=a --rdzv_endpoint={} t.py\n"


def told(text, name="n.sh"):
    """The failed rules on one file."""
    return [one.check.removeprefix("launch.") for one in check_texts({name: text})[0] if str(one.verdict) == "fail"]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("torchrun --lr 3 t.py\n", "options_are_known"),
        ("torchrun --nproc_per_node=8 --local-rank-hint=3 t.py\n", "options_are_known"),
        ("python -m torch.distributed.run --batch_size 8 t.py\n", "options_are_known"),
        ("accelerate launch --lr 3 t.py\n", "options_are_known"),
        ("deepspeed --epochs 3 t.py\n", "options_are_known"),
        ("torchrun --nproc_per_node=8\n", "program_is_given"),
        ("torchrun --nproc_per_node=8 -m\n", "program_is_given"),
        ("torchrun -m\n", "program_is_given"),
        ("torchrun\n", "program_is_given"),
        ('SCRIPT=""\ntorchrun --nproc_per_node=8 $SCRIPT\n', "program_is_given"),
        ("accelerate launch --num_processes 8\n", "program_is_given"),
        ("deepspeed --num_gpus 8\n", "program_is_given"),
    ],
)
def test_what_the_launchers_parser_refuses_fails(text, rule):
    """An option that is the program's, or no program at all: argparse prints the usage and stops."""
    assert told(text) == [rule]


@pytest.mark.parametrize(
    "text",
    [
        "torchrun --nproc_per_node=8 t.py --lr 3\n",
        "torchrun -r3 --nproc-per-node 8 -m pkg.train --lr 3\n",
        "torchrun --nproc_per_node=8 -- t.py --lr 3\n",
        "torchrun --help\n",
        "command -v torchrun || pip install torch\ntorchrun --nproc_per_node=8 t.py\n",
        "torchrun --nproc_per_node=8 $ARGS\n",
        "accelerate launch --fsdp_new_option 3 --num_processes 8 t.py\n",
        "accelerate launch --parallelism_config_sp_size 3 --num_processes 8 t.py\n",
    ],
)
def test_what_it_takes_is_not_told(text):
    """Options behind the program are its own, and a launcher that is only asked for starts nothing."""
    assert not {"options_are_known", "program_is_given"} & set(told(text))


def options_of(parser):
    """The long options of an argparse parser: with a value or without."""
    return {
        word.removeprefix("--").replace("-", "_"): action.nargs == 0
        for action in parser._actions
        for word in action.option_strings
        if word.startswith("--")
    }


def test_torchruns_options_are_those_of_its_own_parser():
    """Every one that the installed torch takes is known, and whether it has a value."""
    run = pytest.importorskip("torch.distributed.run")
    theirs = options_of(run.get_args_parser())
    assert {name for name in theirs if name not in SPEC.valued and name not in SPEC.flags} == set()
    assert {name for name, is_flag in theirs.items() if is_flag != (name in SPEC.flags)} == set()


def test_accelerates_options_are_those_of_its_own_parser():
    """Those that come and go with versions are known by how they begin."""
    launch = pytest.importorskip("accelerate.commands.launch")
    theirs = options_of(launch.launch_command_parser())
    known = {*accelerate.SPEC.valued, *accelerate.SPEC.flags}
    assert {name for name in theirs if name not in known and not name.startswith(accelerate.FAMILIES)} == set()


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        (ENDPOINT.format("$(hostname -I):29500"), True),
        ("export MASTER_ADDR=$(hostname -I)\n" + ENDPOINT.format("$MASTER_ADDR:29500"), True),
        ("export MASTER_ADDR=`hostname --all-ip-addresses`\n" + ENDPOINT.format('"$MASTER_ADDR:29500"'), True),
        (ENDPOINT.format("$(hostname -I | awk '{print $1}'):29500"), False),
        (ENDPOINT.format("$(hostname -i):29500"), False),
    ],
)
def test_all_addresses_of_a_host_are_no_address(text, is_told):
    """`hostname -I` ends in a blank, at which the shell splits the option, and may print several."""
    found = [one for one in check_texts({"n.sh": text})[0] if re.search("blank behind the last", one.message)]
    assert bool(found) is is_told


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_a_file_in_another_encoding_is_refused_as_its_own_reader_does(name, tmp_path, monkeypatch):
    """accelerate opens its file as UTF-8: a comment in GBK stops it like any other line."""
    monkeypatch.chdir(tmp_path)
    texts = {
        "a.json": '{"num_machines": 1, "num_processes": 8, "x": "主节点"}',
        "a.yaml": "# 主节点\nnum_machines: 1\n",
    }
    (tmp_path / name).write_bytes(texts[name].encode("gbk"))
    found = [one for one in check_files(read_files([name])) if one.check == "launch.letters_are_plain"]
    assert [str(one.verdict) for one in found] == ["fail"]
