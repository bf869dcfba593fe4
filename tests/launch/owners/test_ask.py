"""Do the owners that are installed read launch files, without starting anything and without ever hanging?"""

from __future__ import annotations

import sys
import time

import pytest

from preflight.launch.owners.ask import ask
from preflight.launch.owners.questions import questions
from preflight.launch.read import read_texts
from preflight.launch.rules.check import check_files

CONFIG = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 8\n"
REFUSED = {
    "torch": [
        ("torchrun --standalone --rdzv_conf=timeout t.py\n", "must have a value"),
        ("torchrun --standalone --start_method=thread t.py\n", "invalid choice: 'thread'"),
        ("torchrun --nnodes=3:2 --rdzv_backend=c10d --rdzv_endpoint=a:1 t.py\n", "max_nodes"),
    ],
    "accelerate": [
        ("accelerate launch --num_processes 8 --mixed_precision bf15 t.py\n", "invalid choice: 'bf15'"),
        ("accelerate launch --multi_gpu --use_deepspeed --num_processes 8 t.py\n", "only use one of"),
        ("accelerate launch --config_file c.yaml t.py\n", "unknown keys (['workers'])"),
    ],
    "ray": [("ray start --head --disable-usage-stats=3\n", "does not take a value")],
}
TAKEN = """torchrun --nnodes=2 --nproc_per_node=gpu --node_rank=0 --master_addr=a --master_port=29500 t.py --lr 3
torchrun --nnodes=1:4 --nproc_per_node=$N --rdzv_backend=c10d --rdzv_id=$ID --rdzv_endpoint=$HOST:29500 -m pkg.train
python -m torch.distributed.launch --use_env --nproc_per_node=8 t.py
accelerate launch --config_file good.yaml --num_machines 2 --machine_rank 0 --main_process_ip a t.py
accelerate launch --num_processes 8 --mixed_precision $MP t.py
ray start --head --port=6379 --num-gpus=8 --block
"""


def told(texts, answers):
    """The messages of what an owner refuses."""
    found = check_files(read_texts(texts), answers=answers)
    return [one.message for one in found if one.check == "launch.owner_accepts_it"]


def test_what_an_owner_refuses_is_quoted(patience):
    """The reason as its own parser gives it, for each owner that is installed here."""
    cases = [(package, text, part) for package, rows in REFUSED.items() for text, part in rows]
    texts = {f"{place}.sh": text for place, (_, text, _) in enumerate(cases)} | {"c.yaml": CONFIG + "workers: 3\n"}
    pytest.importorskip("torch")
    pytest.importorskip("accelerate")
    answers = ask(questions(read_texts(texts)), sys.executable, seconds=60 * patience)
    said = told(texts, answers)
    missing = [part for package, _, part in cases if not any(package in one and part in one for one in said)]
    assert (missing, len(said)) == ([], len(cases))


def test_what_an_owner_takes_is_not_told(patience):
    """Right command lines, parts of which only a run would tell, on a machine without their GPUs."""
    texts = {"n.sh": TAKEN, "good.yaml": CONFIG + "mixed_precision: bf16\n"}
    pytest.importorskip("torch")
    answers = ask(questions(read_texts(texts)), sys.executable, seconds=60 * patience)
    assert len(answers) >= 4
    assert [answer for answer in answers if answer.refused] == []


def test_a_python_without_owners_gives_no_answers(tmp_path):
    """Nor does one that is not there, or one that prints something else."""
    files = questions(read_texts({"n.sh": TAKEN}))
    noise = tmp_path / "python"
    noise.write_text('#!/bin/sh\ncat > /dev/null\necho hello\necho \'{"id": 99, "owner": "torch"}\'\n')
    noise.chmod(0o755)
    assert ask(files, "/nonexistent/python") == ask(files, str(noise)) == ()


def test_an_owner_that_hangs_is_ended_with_all_it_started(tmp_path):
    """What was answered before counts."""
    files = questions(read_texts({"n.sh": TAKEN}))
    stuck = tmp_path / "python"
    stuck.write_text(
        '#!/bin/sh\necho \'{"id": 0, "owner": "torch", "version": "1", "refused": "no"}\'\nsleep 600 & sleep 600\n'
    )
    stuck.chmod(0o755)
    start = time.monotonic()
    answers = ask(files, str(stuck), seconds=0.5)
    assert time.monotonic() - start < 60
    assert [(one.question, one.refused) for one in answers] == [(files[0], "no")]


def test_nothing_of_the_users_is_run(tmp_path, monkeypatch, patience):
    """Neither the program nor a module of its folder that has an owner's name; no process is started."""
    monkeypatch.chdir(tmp_path)
    mark = tmp_path / "ran"
    (tmp_path / "torch.py").write_text(f"open({str(mark)!r}, 'w')\n")
    (tmp_path / "t.py").write_text(f"open({str(mark)!r}, 'w')\n")
    text = "accelerate launch --num_processes 2 --multi_gpu t.py\ntorchrun --nproc_per_node=2 t.py\n"
    ask(questions(read_texts({"n.sh": text})), sys.executable, seconds=60 * patience)
    assert not mark.exists()
