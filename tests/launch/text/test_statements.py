"""Which branches, loops and here-documents of a script run, as far as the script alone tells?"""

from __future__ import annotations

from operator import eq, ge, gt, le, lt, ne

import pytest

from preflight.launch.text.statements import SOURCE_LIMIT, read_script
from preflight.said.errors import UsageError
from tests.launch.text.scripts import commands, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1; if [ $a -eq 1 ]; then b=x; else b=y; fi; run $b", ["run", "x"]),
        ("if [ $Q = 1 ]; then b=x; else b=y; fi; run $b", ["run", "x or y"]),
        ("a=2; if [ $a -eq 1 ]; then b=x; else b=y; fi; run $b", ["run", "y"]),
        ("a=1; if [ $a != 1 ]; then b=x; fi; run $b", ["run", "$b"]),
        ("b=z; if [ $Q = 1 ]; then b=x; fi; run $b", ["run", "x or z"]),
        ("case $Q in a) b=1;; b) b=2;; esac; run $b", ["run", "1 or 2"]),
        ('a=; if [ -z "$a" ]; then b=x; fi; run $b', ["run", "x"]),
        ('a=1; if [ -n "$a" ]; then b=x; fi; run $b', ["run", "x"]),
        ("if [ ${A:-1} = 1 ]; then b=x; else b=y; fi; run $b", ["run", "x or y"]),
        ("a=b; if [ $a -gt 1 ]; then b=x; else b=y; fi; run $b", ["run", "x or y"]),
    ],
)
def test_a_test_that_the_script_decides_leaves_one_branch(text, expected):
    """Any other leaves all of them, and what they set differently is unknown; a default decides nothing."""
    assert words(text)[-1] == expected


@pytest.mark.parametrize(
    ("operator", "holds"), [("-eq", False), ("-ne", True), ("-gt", False), ("-ge", False), ("-lt", True), ("-le", True)]
)
def test_numbers_are_compared_as_numbers(operator, holds):
    """2 is less than 10, though its letter is not."""
    assert words(f"a=2; if [ $a {operator} 10 ]; then run x; else run y; fi") == [["run", "x" if holds else "y"]]


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ('A=; [ -z "$A" ] && run', 1),
        ('A=1; [ -z "$A" ] && run', 0),
        ('A=1; [ -z "$A" ] || run', 1),
        ('A=; [ -z "$A" ] || run', 0),
        ("[ $X = 1 ] && run", 1),
        ("cd /x && run", 2),
    ],
)
def test_a_command_behind_a_test_runs_unless_the_script_says_no(text, runs):
    """`&&` and `||` alike."""
    assert len(words(text)) == runs


def test_a_command_behind_an_open_test_is_conditional():
    """So that what it launches is not taken for certain."""
    (found,), _ = commands("[ $X = 1 ] && run\n")
    assert found.is_conditional


def test_a_loop_over_known_words_runs_for_each():
    """Any other loop runs once with an unknown variable."""
    assert words("for i in 0 1; do run $i; done") == [["run", "0"], ["run", "1"]]
    assert words("for i in $(hosts); do run $i; done") == [["run", "$i of a loop"]]


def test_loops_stand_in_each_other():
    """The inner one runs for each word of the outer one."""
    assert words("for i in a b; do for j in 1 2; do run $i$j; done; done") == [
        ["run", "a1"], ["run", "a2"], ["run", "b1"], ["run", "b2"],
    ]  # fmt: skip
    assert len(words("for i in {1..200}; do run $i; done")) == 1


def test_a_loop_that_counts_runs_for_each_number():
    """Where both bounds are known; an array is looked into by its counter."""
    assert words("for ((i = 0; i < 2; i++)); do run $i; done") == [["run", "0"], ["run", "1"]]
    assert words("N=2; for (( i=1; i<=N; i+=1 )); do run $i; done") == [["run", "1"], ["run", "2"]]
    assert words("A=(x y); for ((i=0;i<${#A[@]};++i)); do run ${A[i]} ${A[$i]}; done") == [
        ["run", "x", "x"], ["run", "y", "y"],
    ]  # fmt: skip
    assert words("for ((i = 0; i < $#; i++)); do run $i; done") == [["run", "$i of a loop"]]
    assert words("for ((i = 8; i > 0; i -= 2)); do run $i; done") == [["run", "$i of a loop"]]


def test_a_subshell_keeps_its_variables_to_itself():
    """What it sets is gone behind its bracket, and so is what was unset."""
    assert words("(a=1; run $a); run $a") == [["run", "1"], ["run", "$a"]]
    assert words("a=1; unset a; run $a") == [["run", "$a"]]


def test_a_here_document_is_a_script_only_where_a_shell_reads_it():
    """Python's own text is none."""
    assert words("ssh n1 <<'EOF'\ntorchrun t.py\nEOF\n")[-1] == ["torchrun", "t.py"]
    assert words("python <<'EOF'\ntorchrun t.py\nEOF\n") == [["python"]]


def test_a_placeholder_in_angle_brackets_is_a_word():
    """bash would take MASTER_ADDR=<address> for a redirection, and the command would be lost."""
    assert words("torchrun --master_addr=<ip> t.py") == [["torchrun", "--master_addr=<ip>", "t.py"]]
    assert words("MASTER_ADDR=<address>\nrun $MASTER_ADDR") == [["run", "<address>"]]


def test_a_script_gives_its_variables_and_knows_those_that_it_is_given():
    """Lines count from where the text begins in its file."""
    before = read_script("export A=1\n", "env.sh").variables
    found, _, after, *_ = read_script("B=$A; run $B\n", "x.sh", variables=before, first_line=7)
    assert [word.plain for word in found[0].words] == ["run", "1"]
    assert (found[0].line, after["B"].line) == (7, 7)


def test_a_script_without_end_is_refused():
    """In one line that names the file."""
    with pytest.raises(UsageError, match=r"^x\.sh: \d+ characters; wanted at most"):
        read_script("#" * (SOURCE_LIMIT + 1), "x.sh")


NUMBERS = {"-eq": eq, "-ne": ne, "-gt": gt, "-ge": ge, "-lt": lt, "-le": le}
TEXTS = {"=": eq, "==": eq, "!=": ne}


@pytest.mark.parametrize(("operator", "holds"), [*NUMBERS.items(), *TEXTS.items()])
def test_a_comparison_holds_where_bash_says_so(operator, holds):
    """Below, at and above each other, as numbers or as texts."""
    for left, right in ((1, 2), (2, 2), (3, 2)):
        taken = "x" if holds(left, right) else "y"
        assert words(f"n={left}; if [ $n {operator} {right} ]; then run x; else run y; fi") == [["run", taken]]


@pytest.mark.parametrize(
    ("test", "taken"),
    [
        ("true", "x"),
        (":", "x"),
        ("false", "y"),
        ('[ -z "" ]', "x"),
        ('[ -n "" ]', "y"),
        ('[ -z "a" ]', "y"),
        ('[ -n "a" ]', "x"),
    ],
)
def test_a_test_without_an_open_part_leaves_one_branch(test, taken):
    """What the script alone decides."""
    assert words(f"if {test}; then run x; else run y; fi") == [["run", taken]]
