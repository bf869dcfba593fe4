"""Are scripts told apart that bash reads otherwise than they were meant?"""

from __future__ import annotations

import pytest

from preflight.launch.text import form, grammar
from tests.launch.samples import exports, judged, rules

HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n"
RUN = "torchrun \\\n  --nnodes 2 \\\n  --nproc_per_node 8 \\\n  train.py\n"


def told(text):
    """The rule, first line and message of each problem."""
    return [
        (found.check.removeprefix("launch."), found.where[0].line, found.message)
        for found in form.problems(text, "x.sh", grammar.read(text))
    ]


def fixed(text):
    """The text with the edits of all problems."""
    lines = text.split("\n")
    edits = [edit for found in form.problems(text, "x.sh", grammar.read(text)) for edit in found.edits]
    for edit in sorted(edits, key=lambda edit: edit.first, reverse=True):
        lines[edit.first - 1 : edit.last] = edit.lines
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        HEAD + RUN,
        "echo \\ \n",  # nothing follows
        "cat <<EOF\n--a \\ \n--b <C>\nEOF\n",
        "echo 'usage: <FILE>' \"<FILE>\"  # <FILE>\n",
        "case $1 in\n  --nodes) N=$2 ;;\n  -h | --help) exit ;;\nesac\n",
        "ARGS=(\n  --a 1\n  # b\n  --c 2\n)\n",
        "X='\n--a \\\n--b'\n",
        "##SBATCH --nodes=2\nsrun x\n#SBATCHER\n",
        "sort <in.txt> out.txt\n",
        "#!/bin/zsh\nfor a b in ${(kv)c}; do echo; done\n",
    ],
)
def test_a_script_of_good_form_is_silent(text):
    """Options in arrays, texts and case branches are no commands."""
    assert told(text) == []


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        (RUN.replace("2 \\", "2 \\ "), 2, "blank after the backslash"),
        (RUN.replace("2 \\", "2"), 2, "no backslash"),
        (RUN.replace("  --nproc", "  # --x 1 \\\n  --nproc"), 3, "comment"),
        (RUN.replace("  --nproc", "\n  --nproc"), 4, "empty line"),
    ],
)
def test_a_command_that_ends_too_early_is_told_and_mended(text, line, word):
    """Each way in which a continued command is cut off, at the line that cuts it."""
    ((rule, at, message),) = told(text)
    assert (rule, at) == ("commands_are_continued", line)
    assert word in message
    assert "`--nproc_per_node`" in message
    assert fixed(text) == RUN


def test_what_is_wrong_in_many_lines_is_told_once():
    """A comment between any two options: one finding with all lines, and an edit for each."""
    options = "".join(f"  # why\n  --o{place} 1 \\\n" for place in range(20))
    ((_, line, message),) = told(f"torchrun \\\n{options}  train.py\n")
    assert line == 2
    assert "19 more, the last in line 40" in message
    assert (
        fixed(f"torchrun \\\n{options}  train.py\n")
        == f"torchrun \\\n{options.replace('  # why' + chr(10), '')}  train.py\n"
    )


def test_a_hole_outside_of_quotes_is_told():
    """To bash it is a redirection."""
    ((rule, line, message),) = told("echo '<A>'\ntorchrun --master_addr <ADDRESS> t.py\n")
    assert (rule, line) == ("placeholders_are_filled_in", 2)
    assert message.startswith("<ADDRESS> ")


def test_a_here_document_whose_end_is_indented_takes_the_rest():
    """The line that was meant is named and fixed."""
    text = "cat > x <<EOF\na\n  EOF\ntorchrun t.py\n"
    ((rule, line, message),) = told(text)
    assert (rule, line) == ("script_is_bash", 1)
    assert "line 3" in message
    assert fixed(text) == "cat > x <<EOF\na\nEOF\ntorchrun t.py\n"


def test_line_ends_of_windows_are_one_finding():
    """With an edit for every line."""
    (found,) = form.carriage_returns("a\r\nb\r\nc\n", "x.sh")
    assert "2 lines" in found.message
    assert [edit.lines for edit in found.edits] == [("a",), ("b",)]
    assert list(form.carriage_returns("a\nb\n", "x.sh")) == []


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("export RANK = 0", "export RANK=0"),
        ("export RANK= 0", "export RANK=0"),
        ("export RANK =0", "export RANK=0"),
        ("RANK = 0", "RANK=0"),
    ],
)
def test_a_blank_beside_an_equals_sign_is_told_and_read_as_meant(line, right):
    """bash runs the name as a command, or exports it without its value; the rank is not lost to the other rules."""
    text = exports().replace("export RANK=0", line)
    found = [one for one in judged({"n0.sh": text, "n1.sh": exports(1)}) if str(one.verdict) == "fail"]
    assert [one.check for one in found if "assigned" in one.check] == ["launch.variables_are_assigned"]
    assert found[0].fix == f"line 1: {right}"


@pytest.mark.parametrize("line", ["IFS= read -r x", "if [ $A = 0 ]; then echo; fi", "A= python x.py", "[[ $A = b ]]"])
def test_other_equals_signs_are_left_alone(line):
    """An empty value for one command, and comparisons."""
    assert "variables_are_assigned" not in rules({"n0.sh": f"{line}\n{exports()}", "n1.sh": exports(1)})


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        ("torchrun --nnodes 1 \\ # nodes", "torchrun --nnodes 1 \\"),
        ("torchrun --nnodes 1 \\   # nodes", "torchrun --nnodes 1 \\"),
        ("torchrun --nnodes 1   # nodes", "torchrun --nnodes 1 \\"),
    ],
)
def test_a_comment_that_ends_a_command_goes(line, fixed):
    """A backslash has to be the last letter of its line: a comment may stand neither behind it nor in its place."""
    (found,) = judged({"t.sh": f"{line}\n  --nproc_per_node 8 t.py\n"})
    assert (found.check, found.edits[0].lines) == ("launch.commands_are_continued", (fixed,))


def test_a_comment_behind_a_backslash_in_an_array_fails():
    """The words of the comment become arguments of the program."""
    text = "ARGS=(\n  --heads=32 \\ # 7b: 32\n  --x 3\n)\ntorchrun t.py ${ARGS[@]}\n"
    (found,) = judged({"t.sh": text})
    assert (found.check, found.where[0].line, found.edits[0].lines) == (
        "launch.commands_are_continued",
        2,
        ("  --heads=32 \\",),
    )
