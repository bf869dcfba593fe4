"""What do commands do to the walk: scripts inside their words, files that they write, loops that wait for them?"""

from __future__ import annotations

import pytest

from preflight.launch.read import read_texts
from tests.launch.text.scripts import commands, words

RUN = ["torchrun", "t.py"]
KNOWN = ("torchrun",)


@pytest.mark.parametrize(
    "text",
    [
        "bash -lc 'torchrun t.py'",
        "sudo -E nohup timeout 60 bash -c 'torchrun t.py'",
        "singularity exec --nv x.sif bash -c 'torchrun t.py'",
        "tmux send-keys -t a 'torchrun t.py' C-m",
        "gcloud compute tpus ssh x --command='torchrun t.py'",
        "cat hosts | xargs -I{} ssh {} 'torchrun t.py'",
        "pdsh -w n[1-2] 'torchrun t.py'",
        "cat > run.sh <<'EOF'\ntorchrun t.py\nEOF\nbash run.sh\n",
        "cat <<EOF > run.sh\ntorchrun t.py\nEOF\nsrun ./run.sh\n",
        "cat <<EOF &> run.sh\ntorchrun t.py\nEOF\nbash run.sh\n",
        "cat <<EOF >| run.sh\ntorchrun t.py\nEOF\nbash run.sh\n",
        "tee run.sh <<EOF\ntorchrun t.py\nEOF\nssh n1 bash run.sh\n",
        "sbatch <<EOF\n#!/bin/bash\ntorchrun t.py\nEOF\n",
        "ssh n1 <<'EOF'\ntorchrun t.py\nEOF\n",
        "f() { bash -c \"$1\"; }\nf 'torchrun t.py'\n",
        "bash -c '$0 $1' torchrun t.py\ntorchrun t.py",
    ],
)
def test_a_script_inside_a_command_is_read(text):
    """However it is handed on: as a word, as a here-document, through a file that the script itself wrote."""
    assert words(text, launch_words=KNOWN)[-1] == RUN


def test_a_here_document_is_filled_in_where_it_is_written():
    """But for what a backslash or quotes around its ending leave to the shell that reads it."""
    text = "N=2\nexport M=3\ncat > run.sh <<{}\nrun $N \\$M\nEOF\nbash run.sh\n"
    assert words(text.format("EOF"))[-1] == ["run", "2", "3"]
    assert words(text.format("'EOF'"))[-1][:2] == ["run", "$N"]


@pytest.mark.parametrize(
    ("text", "loop", "in_background"),
    [
        ("for h in a b; do ssh $h 'torchrun t.py'; done", "for", False),
        ("for h in a b; do ssh $h 'torchrun t.py' & done; wait", "for", True),
        ("for h in a b; do ssh -f $h 'torchrun t.py'; done", "for", True),
        ("for h in a b; do ssh $h 'nohup torchrun t.py > l 2>&1 &'; done", "for", True),
        ("while read h; do ssh $h 'torchrun t.py' > l 2>&1 & done < hosts", "while", True),
        ("f() { ssh a 'torchrun t.py'; }\nf &\n", "", True),
        ("ssh a 'torchrun t.py'", "", False),
        ("(ssh a 'torchrun t.py') &", "", True),
        ("tmux new -d -s a 'torchrun t.py'", "", True),
    ],
)
def test_who_is_waited_for_is_known(text, loop, in_background):
    """The shell goes on behind an &, and behind what starts a window or a daemon."""
    found, _ = commands(text, launch_words=KNOWN)
    command = next(command for command in reversed(found) if "torchrun" in [word.plain for word in command.words])
    assert (command.loop, command.in_background) == (loop, in_background)


def test_a_command_whose_script_was_read_says_so():
    """It hides nothing any more."""
    found, _ = commands("srun bash -c 'torchrun t.py'\npython start.py -- torchrun t.py\n", launch_words=KNOWN)
    assert [command.is_opened for command in found] == [True, False, False]


def test_a_variable_that_builds_on_what_it_was_stays_exported():
    """What the environment had exported is so after NAME=${NAME:-default}."""
    (command,), _ = commands('MASTER_ADDR="${MASTER_ADDR:-localhost}"\nPORT=${OTHER:-1}\nrun\n')
    assert {name: held.exported for name, held in command.variables.items()} == {"MASTER_ADDR": True, "PORT": False}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("N=0\nrun $((N++)) $N $((++N)) $N", ["run", "0", "1", "2", "2"]),
        ('f() { run $* "$@"; }\nf a b', ["run", "a", "b", "a", "b"]),
        ("run $'it\\'s' $'a\\tb'", ["run", "it's", "a\tb"]),
    ],
)
def test_what_bash_puts_in_place_is_put_there(text, wanted):
    """Numbers that are counted up before or after they are read, all arguments, quotes within quotes."""
    assert words(text, launch_words=("run",))[-1] == wanted


NODE = "torchrun --nnodes=2 --nproc_per_node=8 --node_rank=${1:-7} --master_addr=n1 train.py\n"


@pytest.mark.parametrize(
    ("command", "rank", "around"),
    [
        ("bash node.sh 1", 1, {"bash"}),
        ("bash node.sh 1 < other.txt", 1, {"bash"}),
        ("bash -x node.sh 1", 1, {"bash"}),
        ("./node.sh 1", 1, set()),
        ("bash -s 1 < node.sh", 1, {"bash"}),
        ("bash < node.sh", 7, {"bash"}),
        ("ssh n2 bash -s 1 < node.sh", 1, {"bash", "ssh"}),
        ("bash -c 'bash node.sh 1'", 1, {"bash"}),
        ("srun bash node.sh 1", 1, {"bash", "srun"}),
        ("srun ./node.sh 1", 1, {"srun"}),
        ("docker exec box /job/node.sh 1", 1, {"docker", "exec"}),
    ],
)
def test_a_script_gets_the_words_behind_it(command, rank, around):
    """By its name or as the input of a shell, on whatever node, and not those of the shell itself."""
    (found,) = read_texts({"run.sh": f"#!/bin/bash\n{command}\n", "node.sh": NODE}).plans
    assert (found.where.file, found.node_rank.value) == ("node.sh", rank)
    assert around <= found.wraps


@pytest.mark.parametrize("command", ["bash bash", "bash -s", "bash other.sh 1", "bash -c node.txt", "echo node.sh 1"])
def test_a_script_that_nothing_starts_keeps_its_own_words(command):
    """It is read by itself, without arguments of another."""
    (found,) = read_texts({"run.sh": f"#!/bin/bash\n{command}\n", "node.sh": NODE}).plans
    assert (found.node_rank.value, found.wraps) == (7, frozenset())
