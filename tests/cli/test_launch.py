"""Are launch files checked and written from the command line, with the exit code that a script needs?"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from preflight.cli import launch, main
from preflight.cli.launch import unreadable
from preflight.testing import healthy
from tests.launch.files import written


class Done(NamedTuple):
    """What a command line left behind."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(tmp_path, monkeypatch, capsys) -> Callable[..., Done]:
    """Run a command line in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setattr(launch, "ask", lambda *_: ())  # its own tests ask torch, which takes seconds to import

    def call(*words: str) -> Done:
        code = main.run(list(words))
        return Done(code, *capsys.readouterr())

    return call


@pytest.fixture
def pair(tmp_path):
    """Two accelerate files of one job; the ranks to be filled in."""
    return lambda *ranks: written(tmp_path, *ranks)


def test_two_files_of_one_rank_are_a_fail_with_file_and_line(run, pair):
    """Both YAML files say machine_rank 0: exit 1, the line, the fix."""
    done = run("launch", "check", *pair(0, 0))

    assert done.returncode == 1, done.stdout + done.stderr
    assert "node1.yaml:4" in done.stdout
    assert "launch." in done.stdout
    assert "Fix:" in done.stdout


def test_a_right_set_is_silent(run, pair):
    """Ranks 0 and 1 that agree: exit 0 and what every rank will see."""
    done = run("launch", "check", *pair(0, 1))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL" not in done.stdout
    assert "local rank" in done.stdout


def test_json_says_the_same(run, pair):
    """--json gives findings with where, and the plan."""
    done = run("launch", "check", *pair(0, 0), "--json")
    document = json.loads(done.stdout)

    assert done.returncode == document["exit_code"] == 1
    assert document["findings"][0]["where"][0]["file"].endswith(".yaml")
    assert len(document["plan"]["launches"]) == 2


@pytest.mark.parametrize("words", [("check", "nowhere.yaml"), ("check",), ("write", "--out", "x"), ("repair",)])
def test_wrong_words_are_one_line_and_4(run, words):
    """A missing file or option is a usage error without a traceback."""
    done = run("launch", *words)

    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_written_files_pass_the_check(run, tmp_path):
    """`launch write` for this machine, then `launch check` of what it wrote: without its program it is no start."""
    done = run("launch", "write", "--launcher=torchrun", "--out=made", "--", "train.py")
    assert done.returncode == 0, done.stdout + done.stderr
    files = done.stdout.split()

    lacking = run("launch", "check", *files, "--hosts=local")
    (tmp_path / "train.py").write_text("print('started')\n")
    checked = run("launch", "check", *files, "--hosts=local")

    assert (lacking.returncode, "train.py: No such file or directory" in lacking.stdout) == (1, True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "Next: preflight run --hosts=local --launch=" in done.stderr
    assert f"Then start it: bash {tmp_path}/made/local.sh" in done.stderr  # nobody logs in to where he is
    again = run("launch", "write", "--launcher=torchrun", f"--python={sys.executable}", "--out=own", "--", "train.py")
    assert f"/own/*' --python={sys.executable}\n" in again.stderr


def test_a_file_that_is_there_with_another_text_is_not_overwritten(run, tmp_path):
    """What a user has changed by hand stays, and the message says what to do."""
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "local.sh").write_text("my own\n")
    done = run("launch", "write", "--launcher=torchrun", "--out=made", "--", "train.py")
    assert done.returncode == 4
    assert "local.sh is there already, with another text" in done.stderr
    assert (tmp_path / "made" / "local.sh").read_text() == "my own\n"


def test_a_pull_request_shows_the_line(run, pair):
    """As workflow commands, as SARIF, and beside the text where GitHub runs it."""
    files = pair(0, 0)
    github = run("launch", "check", *files, "--format=github")
    sarif = run("launch", "check", *files, "--format=sarif")

    assert github.stdout.startswith("::error file=node0.yaml,line=4,title=launch.ranks_are_distinct::")
    assert json.loads(sarif.stdout)["runs"][0]["results"][0]["ruleId"] == "launch.ranks_are_distinct"
    assert github.returncode == sarif.returncode == 1
    assert run("launch", "check", *files, "--format=xml").returncode == 4


def test_where_github_runs_it_the_lines_stand_beside_the_text(run, pair, monkeypatch):
    """As workflow commands, which it shows at the files."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    done = run("launch", "check", *pair(0, 0))
    assert "FAIL" in done.stdout
    assert "::error file=node0.yaml,line=4" in done.stdout


def test_a_host_that_was_not_reached_is_told_and_is_3(run, pair):
    """The files are judged all the same; a fail of theirs is 1, which says more."""
    hosts = ("--hosts=nowhere.invalid", "--ssh-option=-F none")
    right, wrong = run("launch", "check", *pair(0, 1), *hosts), run("launch", "check", *pair(0, 0), *hosts)
    assert (right.returncode, wrong.returncode) == (3, 1)
    assert right.stderr.startswith("nowhere.invalid: not reached: ")


def test_files_are_written_for_all_hosts_or_none(run, tmp_path):
    """A job without one of its nodes would wait for it."""
    done = run(
        "launch", "write", "--launcher=torchrun", "--out=made", "--hosts=nowhere.invalid", "--ssh-option=-F none"
    )
    assert done.returncode == 4
    assert "launch files are written for all hosts or none" in done.stderr
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--launcher=horovod", "--out=made"), "horovod"),
        (("--launcher=torchrun", "--out=taken"), "--out taken"),
        (("--launcher=accelerate", "--out=made", "--like=nowhere.yaml"), "No such file"),
        (("--launcher=torchrun", "--out=made", "--like=taken"), "--like"),
    ],
)
def test_what_cannot_be_written_is_one_line_and_4(run, tmp_path, words, message):
    """A launcher that is not known, a folder that is a file, a file to keep settings of that is not there."""
    (tmp_path / "taken").write_text("num_machines: 2\n")
    done = run("launch", "write", *words)
    assert (done.returncode, done.stdout) == (4, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_node_whose_answers_cannot_be_read_is_not_silent():
    """Rules find nothing on it, since there is nothing to compare with: it is named, and the exit code is no pass."""
    whole = healthy(3)
    assert unreadable(whole.cluster) == {}
    broken = whole.without("node3", "network", "the node's answer is malformed: Expected `array`")
    assert unreadable(broken.cluster) == {"node3": "network: the node's answer is malformed: Expected `array`"}


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("python prepare.py\n", 5, "no command of a known launcher"),
        ("$LAUNCHER --nnodes 2 train.py\n", 5, "x.sh:1"),
        (
            "source cluster.sh\ntorchrun --nnodes=$N --node_rank=$R --master_addr=$A t.py\n",
            5,
            "cluster.sh is not given",
        ),
        ("torchrun --standalone --nproc_per_node=8 t.py\n", 0, "1 start of a job read"),
        ("accelerate launch --config_file missing.yaml t.py\n", 5, "missing.yaml is not given"),
        ("exit 0\ntorchrun --standalone --nproc_per_node=8 t.py\n", 5, "line 1, where `exit` ends the script"),
        ("if false; then\n  torchrun --standalone t.py\nfi\n", 5, "no command of a known launcher"),
        ("false && torchrun --standalone t.py\n", 5, "no command of a known launcher"),
        ("source ./nowhere.sh\ntorchrun --standalone --nproc_per_node=8 t.py\n", 5, "nowhere.sh sets is unknown"),
        ("T=$(which torchrun)\nsrun $T --standalone --nproc_per_node=8 t.py\n", 0, "1 start of a job read"),
        ("T=$(./find torchrun)\nsrun $T --standalone --nproc_per_node=8 t.py\n", 5, "no command of a known launcher"),
        ("torchrun --standalone --nproc_per_node=8 $EXTRA_ARGS t.py\n", 5, "$EXTRA_ARGS stands for is unknown here"),
    ],
)
def test_what_is_not_judged_is_said_and_never_0(run, tmp_path, text, code, words):
    """By its line; never silence with 0."""
    (tmp_path / "x.sh").write_text(text)
    done = run("launch", "check", "x.sh")

    assert done.returncode == code, done.stdout
    assert words in done.stdout
    assert done.stdout.count("not judged") == (words != "1 start of a job read")
    assert (code == 5) == ("nothing wrong found" not in done.stdout)


def test_a_start_that_is_not_judged_beside_one_that_is_keeps_the_code_from_0(run, tmp_path):
    """In one file or in two, in whichever order: the one that was judged does not speak for the other."""
    (tmp_path / "a.sh").write_text("torchrun --standalone --nproc_per_node=8 t.py\n")
    (tmp_path / "b.sh").write_text("accelerate launch --config_file missing.yaml t.py\n")
    (tmp_path / "c.sh").write_text((tmp_path / "b.sh").read_text() + (tmp_path / "a.sh").read_text())
    (tmp_path / "d.sh").write_text("pip install torch\n")
    codes = [run("launch", "check", *names.split()).returncode for names in ("a.sh", "a.sh b.sh", "b.sh a.sh", "c.sh")]
    assert codes == [0, 5, 5, 5]
    assert run("launch", "check", "a.sh", "d.sh").returncode == 0


def test_without_bash_a_script_is_not_green(run, tmp_path, monkeypatch):
    """Nobody read it to its end: that is said, and the code is not 0."""
    (tmp_path / "run.sh").write_text("torchrun --standalone --nproc_per_node=8 train.py\n")
    assert run("launch", "check", "run.sh").returncode == 0
    (tmp_path / "run.sh").write_text("torchrun --standalone --nproc_per_node=4 train.py\n")
    monkeypatch.setenv("PATH", "")
    done = run("launch", "check", "run.sh")
    assert done.returncode == 5
    assert "not known: there is no bash on this machine" in done.stdout


def test_diff_is_a_patch_and_nothing_else(run, tmp_path):
    """What it mends is counted beside it; the exit code is that of the files as they are."""
    (tmp_path / "x.sh").write_text("torchrun --nproc_per_node=8 \\\n  --master_port=66664 t.py\n")
    done = run("launch", "check", "--diff", "x.sh")

    assert done.returncode == 1
    assert done.stdout.startswith("--- a/x.sh\n+++ b/x.sh\n")
    assert "+  --master_port=29500 t.py" in done.stdout
    assert done.stderr == "1 of 1 findings are fixed by this patch\n"
