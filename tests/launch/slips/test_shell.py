"""Is a slip told by which a shell starts another command than the one that is meant?"""

from __future__ import annotations

import pytest

from preflight.launch.rules.check import check_texts


def told(text):
    """The rules of the findings about a script."""
    return [one.check.removeprefix("launch.") for one in check_texts({"a.sh": text})[0]]


@pytest.mark.parametrize("launcher", ["torchrun --nproc_per_node=8", "accelerate launch --num_processes 8 --multi_gpu"])
def test_an_assignment_behind_a_launcher_is_its_program(launcher):
    """In front of it the shell reads it; the fix says so."""
    (found,) = check_texts({"a.sh": f"{launcher} NAME=1 train.py\n"})[0]
    assert (found.check, found.fix) == ("launch.program_is_given", f"NAME=1 {launcher} train.py")
    assert told(f"{found.fix}\n") == []


def test_a_program_in_a_line_of_its_own_is_no_argument():
    """The edit continues the line above."""
    torn = "torchrun --nproc_per_node=8 \\\n  test.py\n  train.py\n"
    assert told(torn) == ["commands_are_continued"]
    assert told(torn.replace("test.py", "test.py \\")) == []


def test_a_librarys_variable_is_exported_or_read():
    """One that another command is given by name was not meant for this shell's processes."""
    start = "torchrun --nproc_per_node=8 train.py\n"
    assert told(f"NCCL_NVLS_ENABLE=0\n{start}") == ["variables_are_exported"]
    assert told(f"export NCCL_NVLS_ENABLE=0\n{start}") == []
    assert told(f"NCCL_NVLS_ENABLE=0\necho $NCCL_NVLS_ENABLE\n{start}") == []
