"""Does a word of a script expand as the shell would expand it, as far as the script alone tells?"""

from __future__ import annotations

import pytest

from preflight.launch.text.expansion import Assigned, Scope
from preflight.launch.text.marks import Marks, is_known, plain
from tests.launch.text.scripts import commands, words


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
        ("a=x y=2 run $a", ["run", "$a"]),
    ],
)
def test_words_as_the_shell_would_make_them(text, expected):
    """Quoting, splitting, arrays, arithmetic and defaults."""
    assert words(text)[-1] == expected


def test_values_keep_the_line_that_set_them():
    """A value that a variable carries points at the assignment."""
    found, marks = commands("A=5\n\nrun --n $A\n")
    assert marks.field(found[0].words[2].text, 3).line == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run n{1..3}.lan", ["n1.lan", "n2.lan", "n3.lan"]),
        ("run {08..10} {3..1}", ["08", "09", "10", "3", "2", "1"]),
        ("run a{1..2}b{1..2}", ["a1b1", "a1b2", "a2b1", "a2b2"]),
        ("x='a b'; run {1..2}$x", ["1a", "b", "2a", "b"]),
        ("run \"n{1..2}\" 'n{1..2}'", ["n{1..2}", "n{1..2}"]),
        ("x=n{1..2}; run $x", ["n{1..2}"]),
        ('run $(seq 3) "$(seq 3)"', ["1", "2", "3", "$(seq 3)"]),
    ],
)
def test_ranges_become_a_word_each(text, expected):
    """Braces before all else and with their padding; in quotes and in an assignment they stay as written."""
    assert words(text)[-1][1:] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run ${A:?none} ${A:+x}", ["${A:?none}"]),
        ("A=1; run ${A:+x}", ["x"]),
        ('a=(1 2); run ${a[0]} "${a[7]}"', ["1", ""]),
        ("a=($(hosts)); run ${a[1]}", ["${a[1]}"]),
        ("A=x/y; run ${A/[x]/z} ${A@Q}", ["z/y", "${A@Q}"]),
        ("run $((2 ** 3)) $((4 / 0)) $(((0 - 7) / 2))", ["$((2 ** 3))", "$((4 / 0))", "-3"]),
        ("run $'a\\tb' a\\ b ~/x *.py", ["a\tb", "a b", "~/x", "*.py"]),
        (
            "A=gpu01,gpu02; run ${A:0:3} ${A: -2} ${A//,/ } ${A^^} ${A/01/7}",
            ["gpu", "02", "gpu01", "gpu02", "GPU01,GPU02", "gpu7,gpu02"],
        ),
        ("B=A; A=1; run ${!B}", ["1"]),
        ("_b=n1; _p=1; run ${A:-$_b} ${A:-$_b:29500} ${A:-$_b$_p}", ["n1", "n1:29500", "n11"]),
        ('A="\n  --a 1 \\\n  --b 2\n"; run $A', ["--a", "1", "--b", "2"]),
        ("A=$(cat <<E\nx $B\nE\n); run $A", ["x", "$B"]),
        ("A=$(cat <<E\n--rank=$1 $2\nE\n); run $A", ["--rank=$1", "$2"]),
        ("A=$(cat <<E\n--rank=$1 $3\nE\n); set -- a b; A=$(cat <<E\n--rank=$1 $3\nE\n); run $A", ["--rank=a", "$3"]),
        ("read -r -d '' A <<'E'\nx y\nE\nrun $A", ["x", "y"]),
        ('set -- a b; run $1 $# $3 "$@"', ["a", "2", "a", "b"]),
    ],
)
def test_what_the_script_does_not_tell_stays_as_it_is_written(text, expected):
    """An operator that is not worked out, an argument that was not given, an element of an unknown list."""
    assert words(text)[-1][1:] == expected


def test_a_variable_that_was_exported_stays_so():
    """A later assignment without the word changes the value alone; exporting what is not set sets nothing."""
    scope = Scope(Marks("x.sh"))
    scope.assign("A", ["1"], 1, exported=True)
    scope.assign("A", ["2"], 2, exported=False)
    scope.export("B")
    assert scope.variables == {"A": Assigned(("2",), 2, exported=True)}


def test_the_text_of_an_array_is_its_first_element():
    """As the shell has it; an empty one gives nothing."""
    assert Assigned(("a", "b"), 1, is_array=True).text == "a"
    assert Assigned((), 1, is_array=True).text == ""


@pytest.mark.parametrize(("expression", "varies"), [("$(hostname)", True), ("$RANDOM", True), ("$SLURM_JOB_ID", False)])
def test_what_every_node_works_out_for_itself_is_marked(expression, varies):
    """Only where the text runs on every node: a batch script works it out once."""
    for per_node in (True, False):
        found, marks = commands(f"run {expression}\n", per_node=per_node)
        field = marks.field(found[0].words[1].text, 1)
        assert (field.expression, field.varies) == (expression, varies and per_node)


def test_a_default_is_known_and_not_firm():
    """${N:-8} is 8 for a reader, and whoever starts the script may say otherwise."""
    found, marks = commands("run ${N:-8} $((${N:-8} * 2))\n")
    for word, text in zip(found[0].words[1:], ("8", "16"), strict=True):
        assert is_known(word.text)
        assert plain(word.text) == text
        assert marks.field(word.text, 1).origin == "environment"


def test_a_value_that_grows_without_end_is_cut():
    """Doubling sixty times would fill the memory; what is left of it is still a word."""
    found, _ = commands("A=x\n" + "A=$A$A\n" * 60 + "run $A\n")
    assert len(found[-1].words[1].text) <= 1 << 17


def test_an_array_of_what_a_command_prints_has_no_known_length():
    """One substitution may be any number of words."""
    assert words('A=(a b)\nB=( $(list) )\nrun ${#A[@]} "${#B[@]}"\n') == [["run", "2", "${#B[@]}"]]


def test_an_escaped_dollar_between_two_quotes_is_a_part_of_the_value():
    """All of it is one word, with the name of a variable for a shell behind this one."""
    assert words('N=2\nexport C="run --rank "\\$X" \\\n --n "$N""\nbash "$C"\n') == [["bash", "run --rank $X  --n 2"]]
