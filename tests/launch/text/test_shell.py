"""Scripts are parsed, never run: which commands, where, and with what around them?"""

from __future__ import annotations

import pytest

from preflight.launch.text.shell import is_container
from tests.launch.text.scripts import commands, words


def test_inner_scripts_are_read_with_what_the_outer_one_knows():
    """bash -c, eval, ssh and here-documents."""
    assert words('L="torchrun --n 2"; srun bash -c "$L --r \\$SLURM_PROCID t.py"')[-1] == [
        "torchrun", "--n", "2", "--r", "$SLURM_PROCID", "t.py",
    ]  # fmt: skip
    assert words('C="torchrun t.py"; eval $C')[-1] == ["torchrun", "t.py"]
    assert words("ssh n1 'cd /x && torchrun t.py'")[-1] == ["torchrun", "t.py"]
    assert words("bash <<'EOF'\ntorchrun t.py\nEOF\n")[-1] == ["torchrun", "t.py"]


def test_nothing_is_run(tmp_path):
    """A command substitution that would leave a file leaves none."""
    target = tmp_path / "made"
    words(f"a=$(touch {target}); touch {target}; `touch {target}`; eval touch {target}")
    assert not target.exists()


@pytest.mark.parametrize(
    ("outer", "is_inside"),
    [
        (("docker", "run", "image", "bash", "-c"), True),
        (("/usr/bin/singularity", "exec", "x.sif"), True),
        (("srun", "--container-image=nvcr.io/x"), True),
        (("srun", "bash", "-c"), False),
        ((), False),
    ],
)
def test_a_container_is_known_by_the_words_around_a_command(outer, is_inside):
    """By its program, or by the option that lets srun start one."""
    assert is_container(outer) is is_inside


def test_variables_in_front_of_a_command_are_its_own():
    """They are exported to it, and gone afterwards."""
    (first, second), _ = commands("export A=1\nB=2\nC=3 run\nrun\n")
    assert {name: held.exported for name, held in first.variables.items()} == {"A": True, "B": False}
    assert {name: (held.text, held.exported) for name, held in first.prefix.items()} == {"C": ("3", True)}
    assert second.prefix == {}


@pytest.mark.parametrize(
    ("text", "exported"),
    [
        ("export A=1", True),
        ("A=1; export A", True),
        ("declare -x A=1", True),
        ("declare A=1", False),
        ("readonly A=1", False),
        ("A=1", False),
    ],
)
def test_only_what_is_exported_reaches_a_program(text, exported):
    """By any of the words that do it."""
    (command,), _ = commands(f"{text}; run\n")
    assert command.variables["A"].exported is exported


def test_functions_and_arguments_are_followed():
    """A function is a command's words by another name; `shift` and `set --` move the arguments."""
    assert words("f() { run $1 $#; }; f a 'b c'") == [["run", "a", "2"]]
    assert words("set -- a b; shift; run $1") == [["run", "b"]]
    assert words("f() { f; f; }; f; run a")[-1] == ["run", "a"]


def test_a_file_that_is_sourced_sets_variables_here():
    """Where it was given; of another nothing is known."""
    texts = {"env.sh": "export PORT=29500\n"}
    assert words(". env.sh; run $PORT", load=texts.get) == [["run", "29500"]]
    assert words("source other.sh; run $PORT", load=texts.get) == [["run", "$PORT"]]
    loop = {"a.sh": ". a.sh\nrun a\n"}
    assert words(". a.sh; run b", load=loop.get)[-1] == ["run", "b"]


def test_a_command_knows_what_it_is_wrapped_in():
    """The words of the outer command, and whether it runs under a condition."""
    found, _ = commands("if $Q; then srun bash -c 'torchrun t.py'; fi\nrun\n")
    inner = next(command for command in found if command.words[0].plain == "torchrun")
    assert inner.outer == ("srun", "bash")
    assert inner.is_conditional
    assert not found[-1].is_conditional


def test_a_command_that_the_grammar_tears_is_marked():
    """Some of its words may be missing, so nothing is concluded from what is not there."""
    (whole,), _ = commands("torchrun --nnodes=2 t.py\n")
    (torn, *_), _ = commands("torchrun --nnodes=2 <<( t.py\n")
    assert (whole.is_torn, torn.is_torn) == (False, True)


def test_the_lines_of_an_inner_script_are_those_of_the_file():
    """A finding points into the user's file, not into the quotes."""
    found, _ = commands("cd /x\nbash -c '\n  torchrun t.py'\n")
    assert [(command.words[0].plain, command.line) for command in found][-1] == ("torchrun", 3)


def test_a_script_of_endless_commands_is_cut():
    """A few thousand are enough to know what it launches."""
    found, _ = commands("run a\n" * 5000)
    assert 2000 <= len(found) <= 2001
