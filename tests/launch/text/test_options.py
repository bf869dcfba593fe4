"""Are the options of a command read as its own parser reads them?"""

from __future__ import annotations

import pytest

from preflight.launch.field import Sourced, Unknown
from preflight.launch.text.marks import is_known
from preflight.launch.text.options import Reader, Spec, parse_options, product
from tests.launch.text.scripts import commands

SPEC = Spec(("nnodes", "nproc_per_node", "node_rank", "role"), ("standalone", "module"), {"-m": "module", "-r": "role"})


def reader(text: str) -> Reader:
    """A reader of the last command of a script."""
    found, marks = commands(text)
    return Reader(found[-1], marks)


def parsed(text: str):
    """The options of a command, by name, and the words of the program."""
    read = reader(text)
    found = parse_options(read.command.words[1:], SPEC, read.marks)
    spell = read.marks.spelled
    return {name: spell(word.text) for name, word in found.options.items()}, [spell(w.text) for w in found.rest], found


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("--nnodes", "nnodes"),
        ("--nproc-per-node", "nproc_per_node"),
        ("--nproc", "nproc_per_node"),
        ("--n", ""),
        ("--stand", "standalone"),
        ("--nothing", ""),
        ("-m", "module"),
        ("-x", ""),
    ],
)
def test_an_option_has_dashes_or_underscores_and_may_be_abbreviated(written, name):
    """As argparse allows it, where only one option begins so."""
    assert SPEC.name(written) == name


def test_a_tool_that_does_not_abbreviate_takes_whole_names_only():
    """accelerate hands the rest to the program."""
    whole = Spec(("num_processes",), ("multi_gpu",), abbreviates=False)
    assert [whole.name(written) for written in ("--num_processes", "--multi-gpu", "--num_proc")] == [
        "num_processes",
        "multi_gpu",
        "",
    ]


@pytest.mark.parametrize(
    ("line", "options", "rest"),
    [
        ("--nnodes=2 --standalone t.py --nnodes 9", {"nnodes": "2", "standalone": "true"}, ["t.py", "--nnodes", "9"]),
        ("--nnodes 2 -m pkg.train -r x", {"nnodes": "2", "module": "true"}, ["pkg.train", "-r", "x"]),
        ("--nnodes 1 --nnodes 2 t.py", {"nnodes": "2"}, ["t.py"]),
        ("--role= -- --odd.py", {"role": ""}, ["--odd.py"]),
        ("--nnodes", {}, []),
        ("--nnodes=$N t.py", {"nnodes": "$N"}, ["t.py"]),
        ("", {}, []),
    ],
)
def test_options_end_where_the_program_begins(line, options, rest):
    """The last of two counts; what stands behind the program is the program's."""
    assert parsed(f"tool {line}")[:2] == (options, rest)


def test_an_option_that_the_tool_does_not_know_is_kept():
    """It may be misspelt, or one of a newer version."""
    _, rest, found = parsed("tool --nnode=2 --unheard t.py")
    assert [word.plain for word in found.unknown] == ["--unheard"]
    assert found.options["nnodes"].plain == "2"
    assert rest == ["t.py"]


@pytest.mark.parametrize(
    ("line", "is_opaque"),
    [
        ("$DISTRIBUTED_ARGS t.py", True),
        ("$@ t.py", True),
        ("$X t.py", True),
        ("$PROGRAM --lr 1", False),
        ("$ARGS", False),
    ],
)
def test_a_variable_before_the_program_may_hold_any_option(line, is_opaque):
    """By its name, or because a program follows it; one at the end is the program."""
    _, rest, found = parsed(f"tool {line}")
    assert found.is_opaque is is_opaque
    assert rest == (["t.py"] if is_opaque else line.split())


@pytest.mark.parametrize(("text", "value"), [("8", 8), ("+2", 2), ("-1", -1), (" 3", 3)])
def test_a_number_is_read_with_its_sign(text, value):
    """And its place."""
    read = reader("run")
    assert read.number(Sourced(text, "x.sh", 4), "--n") == Sourced(value, "x.sh", 4)
    assert read.problems == []


@pytest.mark.parametrize("text", ["", "eight", "1.5", "0x8", "1234567890", "\u0662"])
def test_a_text_that_is_no_number_is_a_problem_and_unknown(text):
    """It is told once, with its line, and no rule goes on with a guess."""
    read = reader("run")
    assert isinstance(read.number(Sourced(text, "x.sh", 4), "--n"), Unknown)
    (found,) = read.problems
    assert found.check == "launch.numbers_are_numbers"
    assert [(where.file, where.line) for where in found.where] == [("x.sh", 4)]


@pytest.mark.parametrize(
    ("word", "address", "port"),
    [
        ("n1:29500", "n1", 29500),
        ("n1", "n1", None),
        ("[fd00::1]:29500", "[fd00::1]", 29500),
        ("[fd00::1]", "[fd00::1]", None),
        ("fd00::1", "fd00::1", None),
        (":29500", None, 29500),
    ],
)
def test_an_endpoint_is_an_address_and_a_port(word, address, port):
    """An IPv6 address has its port behind brackets only."""
    read = reader(f"run '{word}'")
    found, number = read.address_and_port(read.command.words[1], "the port")
    assert (getattr(found, "value", None), getattr(number, "value", None)) == (address, port)
    assert read.address_and_port(None, "the port") == (None, None)


def test_variables_are_those_that_the_command_sees():
    """In front of it, or exported; what is only set is told apart."""
    read = reader("export A=1 B=2\nC=3\nB=4 run\n")
    assert {name: (field.value, field.line) for name, field in read.environment().items()} == {
        "A": ("1", 1),
        "B": ("4", 3),
    }
    assert {name: field.value for name, field in read.unexported().items()} == {"C": "3"}
    assert (read.variable("B").value, read.variable("C"), read.variable("D")) == ("4", None, None)


def test_a_command_is_shown_with_its_known_variables_filled_in():
    """And with the words around the launcher."""
    read = reader("N=2\nsrun --label torchrun --nnodes $N --rdzv_id $ID t.py\n")
    assert read.spelled() == "srun --label torchrun --nnodes 2 --rdzv_id $ID t.py"
    assert read.wrapper(2) == ("srun", "--label")
    assert all(is_known(word) for word in read.wrapper(2))
    assert (read.where.file, read.where.line) == ("x.sh", 2)


@pytest.mark.parametrize(
    ("left", "right", "origin"),
    [
        ("written", "written", "written"),
        ("tool", "tool", "tool"),
        ("tool", "written", "written"),
        ("written", "environment", "environment"),
        ("environment", "tool", "environment"),
    ],
)
def test_a_product_is_as_firm_as_its_factors(left, right, origin):
    """Where one may be replaced by the environment, so may the product; it points at the line that is written."""
    found = product(Sourced(2, "x.sh", 1, left), Sourced(8, "x.sh", 2, right))
    assert (found.value, found.origin) == (16, origin)
    assert found.line == (2 if left == "tool" else 1)


@pytest.mark.parametrize("other", [None, Unknown("$N", "x.sh", 1)])
def test_a_product_with_something_unknown_is_not_told(other):
    """In either order."""
    assert product(Sourced(2, "x.sh", 1), other) is None
    assert product(other, Sourced(2, "x.sh", 1)) is None


def test_options_of_another_launcher_are_refused():
    """As the tool itself stops at them; what begins like one of its families may be new."""
    held = reader("tool --num_machines 2 --brand_new 3 train.py\n")
    found = parse_options(held.command.words[1:], SPEC, held.marks)
    held.refuse(found, "tool", {"num_machines": "--nnodes", "brand": "--role"}, (), ("brand_",))
    assert [(one.check, one.fix) for one in held.problems] == [("launch.options_are_known", "--nnodes")]
