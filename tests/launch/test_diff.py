"""Does a patch apply, and is what it claims to mend gone afterwards?"""

from __future__ import annotations

import subprocess

import pytest

from preflight.launch.diff import fixed, patch
from preflight.launch.rules.check import check_texts
from tests.launch import truth
from tests.launch.samples import BATCHES, DEEPSPEED, FORMATS, HOSTFILE, SBATCH, config, mutated, torchrun
from tests.shares import shares

MUTATIONS = 60
RUN = "torchrun --nnodes=2 --node_rank=$R --nproc_per_node=8 --master_addr=10.0.0.1 {} t.py\n"
BROKEN = {
    "a port that is none": {"x.sh": RUN.format("--master_port=66664")},
    "a port in a variable": {"x.sh": "P=22\n" + RUN.format("--master_port $P")},
    "a port of chance": {"x.sh": "P=$((20000 + RANDOM % 1000))\n" + RUN.format("--master_port $P")},
    "an id of chance": {"x.sh": torchrun(more="--rdzv_backend=c10d --rdzv_id=$RANDOM --rdzv_endpoint=a:1234")},
    "a misspelt variable": {"x.sh": "export NCCL_SOCKET_IFNAMES=eth0\n" + RUN.format("")},
    "a value out of range": {"x.sh": "export NCCL_IB_TIMEOUT=99\n" + RUN.format("")},
    "a variable that is not exported": {
        "x.sh": "MASTER_ADDR=a\nexport MASTER_PORT=29500 RANK=$R WORLD_SIZE=2\npython t.py\n"
    },
    "tasks counted twice": {"x.sbatch": SBATCH.replace("per-node=1", "per-node=8")},
    "a rank twice": {"n0.yaml": config(0), "n1.yaml": config(0)},
    "a product that is none": {
        "ds.json": BATCHES.replace("64,", "65,"), "run.sh": DEEPSPEED, "hostfile": HOSTFILE
    },
    "one of three that differs": {
        f"n{rank}.yaml": config(rank, num_machines="3", num_processes="24", main_process_port=port)
        for rank, port in enumerate(("29500", "29500", "29400"))
    },
    "a user in the address": {"n0.yaml": config(0, main_process_ip="root@10.0.0.1")},
    "line ends of Windows": {"x.sh": RUN.format("").replace("\n", "\r\n")},
    "no backslash": {"x.sh": RUN.format("\n  --master_port=29500")},
    "a blank behind a backslash, at the end of the file": {"x.sh": RUN.format("\\ \n  --rdzv_backend=static").rstrip()},
    "a late directive": {"x.sbatch": SBATCH.replace("#SBATCH --nodes=2\n", "set -e\n#SBATCH --nodes=2\n")},
}  # fmt: skip


def applied(folder, texts, patched):
    """Write the texts, let git apply the patch, and read them again."""
    for name, text in texts.items():
        (folder / name).write_bytes(text.encode())
    git = ["git", "-C", str(folder), "apply", "--whitespace=nowarn"]
    done = subprocess.run(git, check=False, input=patched.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return {name: (folder / name).read_bytes().decode() for name in texts}


@pytest.mark.parametrize("name", BROKEN)
def test_what_has_one_right_value_is_mended(name, tmp_path):
    """The patch applies, and the files are silent; the fix that is printed is the corrected line."""
    texts = BROKEN[name]
    found = fixed(texts)
    assert found.findings
    after = applied(tmp_path, texts, patch(texts, found.texts))
    assert after == found.texts
    assert [one for one in check_texts(after)[0] if str(one.verdict) in ("fail", "warn")] == []


def test_what_the_user_alone_knows_is_left():
    """An address is not made up."""
    text = {"x.sh": torchrun(address="localhost")}
    assert fixed(text).findings == ()
    assert patch(text, fixed(text).texts) == ""


def claims(texts, tmp_path):
    """Whether what is claimed to be fixed is told no more after the patch."""
    found = fixed(texts)
    if not found.findings:
        return 0
    after = applied(tmp_path, texts, patch(texts, found.texts))
    told = {(one.check, one.message) for one in check_texts(after)[0]}
    assert not told & {(one.check, one.message) for one in found.findings}
    return len(found.findings)


@pytest.mark.parametrize("share", shares(6))
def test_every_patch_of_the_table_of_the_truth_holds(tmp_path, share):
    """All of them apply, and leave no finding that they claim to mend."""
    for place, case in enumerate(share.of(truth.cases())):
        folder = tmp_path / str(place)
        folder.mkdir()
        names = {name: name.replace("/", "-") for name in case.texts}
        claims({names[name]: text for name, text in case.texts.items()}, folder)


def test_every_patch_of_a_mutated_file_holds(tmp_path):
    """Broken in any way, what is offered applies and holds."""
    for seed in range(MUTATIONS):
        file, text = list(FORMATS.values())[seed % len(FORMATS)]
        claims({file: mutated(text, seed)}, tmp_path)
