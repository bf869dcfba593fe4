"""Which commands does a container of a manifest run, and is its script one for bash?"""

from __future__ import annotations

from preflight.launch.manifests.programs import program_of
from preflight.launch.text import located
from preflight.launch.text.marks import Marks

CONTAINER = """command: ["/bin/bash", "-ec"]
args:
- |
  export NCCL_DEBUG=INFO
  torchrun --nnodes=2 \\
    train.py
    --epochs 3
env:
- name: LOGLEVEL
  value: DEBUG
"""


def program(text, operator=()):
    """What a container is read as."""
    return program_of(located.load(text, "pod.yaml")[0], Marks("pod.yaml"), "pod.yaml", operator)


def test_the_script_behind_a_shell_is_read():
    """Its commands stand in the lines of the manifest, with the container's variables."""
    commands, _ = program(CONTAINER)
    torchrun = next(command for command in commands if command.words[0].plain == "torchrun")
    assert (torchrun.line, torchrun.variables["LOGLEVEL"].text) == (5, "DEBUG")


def test_what_ends_a_command_early_is_told_in_the_manifests_line():
    """The line of the file, with no edit: the script is indented otherwise there."""
    _, found = program(CONTAINER)
    assert [(one.check, one.where[0].line, one.edits) for one in found] == [("launch.commands_are_continued", 6, ())]
    commands, _ = program(CONTAINER)
    assert any("--epochs" in [word.plain for word in command.words[1:]] for command in commands)


def test_plain_words_are_one_command():
    """Without a shell nothing is expanded but $(NAME)."""
    commands, found = program("command: [torchrun, $(FILE)]\nenv:\n- name: FILE\n  value: t.py\n")
    assert ([word.plain for word in commands[0].words], found) == (["torchrun", "t.py"], [])
