"""What are the owners of launch files asked about these, and what follows from their answers?

`questions` and `settled` are pure; between them `ask` starts a short-lived process. What an owner refuses fails, and
what it takes is not refused by our own tables of its options.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from preflight.judge.ledger.findings import Finding, Verdict, Where
from preflight.launch.field import value_of
from preflight.launch.plan import LaunchFiles, Plan, fail
from preflight.said import said

QUESTIONS_LIMIT = 200
HYDRA = re.compile(r"[+~]{0,2}[A-Za-z_][\w.@/]*=.*", re.DOTALL)
COMMANDS = ("torchrun", "torch.distributed.launch", "deepspeed", "accelerate")
OF_TRANSFORMERS = "--per_device_train_batch_size"
# Our own rules of the same subject: their findings have a fix, so they stay where an owner says the same.
OURS = frozenset(
    f"launch.{rule}"
    for rule in (
        "batch_sizes_multiply",
        "config_files_are_read",
        "counts_are_positive",
        "keys_are_indented",
        "keys_are_known",
        "letters_are_plain",
        "master_port_is_valid",
        "nodes_are_counted_right",
        "num_processes_is_given",
        "numbers_are_numbers",
        "options_are_known",
        "placeholders_are_filled_in",
        "program_is_given",
        "ray_start_is_accepted",
        "script_is_bash",
        "settings_have_an_effect",
        "values_are_allowed",
        "variables_are_set",
        "commands_are_continued",
        "outside_variables_are_set",
        "yaml_values_are_as_meant",
    )
)


@dataclass(frozen=True)
class Question:
    """What one owner is to read: words of a command line, or a configuration.

    ``whole`` says that all of it is known: else a stand-in is in the places of what only a run would tell, and only
    what does not depend on it counts. ``places`` are the lines of the files that it is made of.
    """

    owner: str
    places: tuple[Where, ...]
    words: tuple[str, ...] = ()
    whole: bool = True
    config: str = ""
    is_json: bool = False
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Answer:
    """What an owner said: why it refuses, "" where it takes what it was given."""

    question: Question
    owner: str
    version: str
    refused: str


def questions(files: LaunchFiles) -> tuple[Question, ...]:
    """Everything in these files that an owner can read."""
    found = [question for plan in files.plans for question in _of_plan(plan)]
    found += [
        Question("deepspeed config", (Where(batch.file, 1),), config=files.texts[batch.file])
        for batch in files.batches
        if batch.file in files.texts
    ]
    return tuple(dict.fromkeys(found))[:QUESTIONS_LIMIT]


def _of_plan(plan: Plan) -> Iterator[Question]:
    """The command line and the program's arguments, as far as one parser or another reads them."""
    if plan.is_opaque or not plan.words:
        return
    known = all(word.is_known for word in plan.words)
    words = tuple(word.text for word in plan.words)
    lines = range(plan.words[0].line, plan.words[-1].line + 1)
    places = tuple(Where(plan.where.file, line) for line in {plan.where.line: 0, **dict.fromkeys(lines)})
    name = plan.launcher.name
    if plan.program is None and plan.launcher.runs_program:  # told by a rule of its own
        words = (*words, "program.py")
    if "torch.distributed.launch" in plan.command.split():
        name = "torch.distributed.launch"
    if name in COMMANDS or (name == "ray" and "start" in plan.command.split()[:3]):
        config = value_of(plan.settings.get("config_file"))
        environment = tuple(
            (key, str(value))
            for key, held in plan.environment.items()
            if key.startswith("PET_") and (value := value_of(held)) is not None
        )
        is_json = isinstance(config, str) and config.endswith(".json")
        yield Question(name, places, words, known, plan.config, is_json, environment)
    arguments = tuple(word.text for word in plan.words[len(plan.words) - len(plan.arguments) :])
    if not plan.arguments:
        return
    if any(word.partition("=")[0] == OF_TRANSFORMERS for word in arguments):
        yield Question("transformers", places, arguments, known)
    elif len(arguments) > 1 and all(HYDRA.fullmatch(word) for word in arguments):
        yield Question("hydra", places, arguments, known)


def settled(found: Iterable[Finding], answers: Iterable[Answer]) -> tuple[Finding, ...]:
    """Our findings after the owners spoke: what one takes is not refused by us, and what it refuses fails."""
    held = list(found)
    for answer in answers:
        places = set(answer.question.places)
        if not answer.refused and answer.question.words:
            held = [
                one for one in held if one.check != "launch.options_are_known" or not places.intersection(one.where)
            ]
        elif answer.refused and not any(_says_it(one, answer) for one in held):
            held.append(_refused(answer))
    return tuple(held)


def _says_it(finding: Finding, answer: Answer) -> bool:
    """Whether a finding of ours already tells what an owner refuses."""
    if finding.verdict is not Verdict.FAIL or finding.check not in OURS:
        return False
    files = {place.file for place in answer.question.places}
    is_of_file = not answer.question.words or bool(answer.question.config)
    return any(place in answer.question.places or (is_of_file and place.file in files) for place in finding.where)


def _refused(answer: Answer) -> Finding:
    message = said("{owner} {version} refuses it: {refused}", answer.owner, answer.version, answer.refused)
    return fail("owner_accepts_it", message, answer.question.places[0], fix="")
