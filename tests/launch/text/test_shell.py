"""Scripts are parsed, never run: which commands, with which words."""

from __future__ import annotations

import pytest

from preflight.launch.text.statements import read_script


def words(text):
    """The words of every command, expressions in the places of what is unknown."""
    commands, marks, _ = read_script(text, "x.sh")
    return [[marks.spelled(word.text) for word in command.words] for command in commands]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1; run $a ${a} \"$a\" '$a'", ["run", "1", "1", "1", "$a"]),
        ("run a \\\n  b", ["run", "a", "b"]),
        ("o='-x 1'; run $o \"$o\"", ["run", "-x", "1", "-x 1"]),
        ("o=(-x 'a b'); run ${o[@]}", ["run", "-x", "a", "b"]),
        ("o=(-x 'a b'); run \"${o[@]}\"", ["run", "-x", "a b"]),
        ("o=(a b); run ${o[1]} ${#o[@]}", ["run", "b", "2"]),
        ("o=a; o+=b; run $o", ["run", "ab"]),
        ("run $((2 * 4)) ${A:-3} ${A:=5} $A", ["run", "8", "3", "5", "5"]),
        ("h=n1.lan; run ${h%%.*} ${h#n1.}", ["run", "n1", "lan"]),
        ("run $(date) `date` $B $1", ["run", "$(date)", "`date`", "$B", "$1"]),
        ("run --e=$H:29500", ["run", "--e=$H:29500"]),
        ("a=1; if [ $a -eq 1 ]; then b=x; else b=y; fi; run $b", ["run", "x"]),
        ("if [ $Q = 1 ]; then b=x; else b=y; fi; run $b", ["run", "x or y"]),
        ("a=x y=2 run $a", ["run", "$a"]),
        ("f() { run $1; }; f z", ["run", "z"]),
    ],
)
def test_words_as_the_shell_would_make_them(text, expected):
    """Quoting, splitting, arrays, arithmetic, defaults and branches."""
    assert words(text)[-1] == expected


def test_inner_scripts_are_read_with_what_the_outer_one_knows():
    """bash -c, eval, ssh and here-documents."""
    assert words('L="torchrun --n 2"; srun bash -c "$L --r \\$SLURM_PROCID t.py"')[-1] == [
        "torchrun", "--n", "2", "--r", "$SLURM_PROCID", "t.py",
    ]  # fmt: skip
    assert words('C="torchrun t.py"; eval $C')[-1] == ["torchrun", "t.py"]
    assert words("ssh n1 'cd /x && torchrun t.py'")[-1] == ["torchrun", "t.py"]
    assert words("bash <<'EOF'\ntorchrun t.py\nEOF\n")[-1] == ["torchrun", "t.py"]


def test_a_loop_over_known_words_runs_for_each():
    """Any other loop runs once with an unknown variable."""
    assert words("for i in 0 1; do run $i; done") == [["run", "0"], ["run", "1"]]
    assert words("for i in $(hosts); do run $i; done") == [["run", "$i of a loop"]]


def test_values_keep_the_line_that_set_them():
    """A value that a variable carries points at the assignment."""
    commands, marks, _ = read_script("A=5\n\nrun --n $A\n", "x.sh")
    assert marks.field(commands[0].words[2].text, 3).line == 1


def test_nothing_is_run(tmp_path):
    """A command substitution that would leave a file leaves none."""
    target = tmp_path / "made"
    words(f"a=$(touch {target}); touch {target}; `touch {target}`; eval touch {target}")
    assert not target.exists()
