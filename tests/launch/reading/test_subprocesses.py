"""Are the commands that a Python program starts read where it says them, and nothing made up where it does not?"""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.launch.reading.subprocesses import as_script


def commands(body):
    """The lines of the script, without the empty ones."""
    return [line for line in as_script(f"import os, subprocess, socket\n{body}\n").split("\n") if line]


@pytest.mark.parametrize(
    ("body", "command"),
    [
        ("subprocess.run(['torchrun', '--nnodes=2', 'a b.py'])", "torchrun --nnodes=2 'a b.py'"),
        ("os.system('torchrun t.py')", "torchrun t.py"),
        ("os.execvp('torchrun', ['torchrun', 't.py'])", "torchrun t.py"),
        ("subprocess.Popen('torchrun t.py', shell=True)", "torchrun t.py &"),
        ("subprocess.Popen('torchrun t.py'.split()).wait()", "torchrun t.py"),
        ("n = 2 * 4 - 1\nos.system('torchrun --nnodes ' + str(n) + ' t.py')", "torchrun --nnodes 7 t.py"),
        ("c = ['torchrun']\nc += ['a']\nc.append('b')\nc.extend(['c'])\nsubprocess.run([*c, 'd'])", "torchrun a b c d"),
        ("subprocess.run(['torchrun', os.environ['F']])", 'torchrun "$F"'),
        ("subprocess.run(['torchrun', '$F'])", "torchrun '$F'"),
        (
            "subprocess.run(['torchrun', f'--master_addr={socket.gethostname()}'])",
            'torchrun --master_addr="$(hostname)"',
        ),
        ("subprocess.run(['torchrun', unknown()])", 'torchrun "$(python)"'),
        ("e = dict(os.environ)\ne['RANK'] = '1'\nsubprocess.run(['python', 't.py'], env=e)", "RANK=1 python t.py"),
        ("def go(rank, port=1):\n    os.system(f'torchrun {rank}')\ngo(3)", "torchrun 3"),
        ("for i, h in enumerate(['a', 'b']):\n    os.system(f'torchrun {i}{h}')", "torchrun 0a; torchrun 1b"),
        ("os.environ['MASTER_PORT'] = '1'; os.system('torchrun t.py')", "export MASTER_PORT=1; torchrun t.py"),
    ],
)
def test_a_call_is_a_command_of_the_shell(body, command):
    """With the words that it is handed, and what only running it would tell left open."""
    assert commands(body) == [command]


@pytest.mark.parametrize(
    "body",
    [
        "subprocess.run(['nvidia-smi'])",
        "os.environ['MASTER_ADDR'] = 'localhost'\nsubprocess.run(['git', 'log'])",
        "def never(): os.system('torchrun t.py')",
        "os.system('torchrun t.py'",
    ],
)
def test_a_program_that_starts_no_job_is_none(body):
    """Nor is one that Python does not read."""
    assert commands(body) == []


def test_lines_keep_their_numbers():
    """So that a finding names the line of the call."""
    assert as_script("import os\n\nos.system('torchrun t.py')\n") == "\n\ntorchrun t.py\n"


def test_a_program_without_an_end_is_read_up_to_a_limit():
    """A function that calls itself, and loops in loops."""
    loops = "\n".join(f"{' ' * depth}for x{depth} in range(60):" for depth in range(5))
    text = f"import os\ndef go():\n go()\n{loops}\n     os.system('torchrun t.py')\ngo()\n"
    assert as_script(text).count("torchrun") <= 4096


@given(st.text(alphabet="ab'$\\ \"{}()-=", max_size=12))
def test_a_word_stays_one_word(word):
    """Whatever letters it has: the shell reads what the program hands on."""
    found = commands(f"subprocess.run(['torchrun', {word!r}])")
    assert [shlex.split(line) for line in found] == [["torchrun", word]]


ENDING = "subprocess.run(x if isinstance(x, list) else f'torchrun --nnodes={x}', shell=True)\n"
START = "subprocess.run(['torchrun', '--nnodes=2', 't.py'])\n"


@pytest.mark.parametrize(
    "lines",
    [
        "x = 'a'\n" + "x = x + x\n" * 60 + ENDING,
        "x = ['torchrun']\n" + "x = x + x\n" * 60 + ENDING,
        "x = ['torchrun']\n" + "x = [x, x]\n" * 60 + ENDING,
        "x = ['torchrun']\n" + "x = [x]\n" * 3000 + ENDING,
        "x = 9\n" + "x = x * x\n" * 60 + ENDING,
        "x = 'a'\n" + "x = f'{x}{x}'\n" * 60 + ENDING,
        "x = ['a' * 9]\n" + "x.extend(x)\n" * 60 + "x = ''.join(x)\n" + ENDING,
        "x = {}\nx['a'] = x\nx.update({'b': x})\nsubprocess.run(['torchrun'], env=x)\n",
        "for i in range(1, 5, 0):\n    pass\n" + START,
        "x = " + "+".join(["'a'"] * 2500) + "\n" + START,
        "x = " + "[" * 90 + "]" * 90 + "\n" + START,
        "def f():\n    f()\n    f()\n" + "f()\n" + START,
        "for a in range(60):\n  for b in range(60):\n    for c in range(60):\n      " + START,
    ],
    ids=range(13),
)
def test_what_a_program_would_put_together_is_bounded(lines):
    """It is not run: what grows beyond what a command holds is left open, and so is what goes round for ever."""
    assert len(as_script("import subprocess\n" + lines)) < 1 << 21
