"""What are owners asked about launch files, and what becomes of our findings when they have answered?"""

from __future__ import annotations

import pytest

from preflight.launch.owners.questions import Answer, questions, settled
from preflight.launch.read import read_texts
from preflight.launch.rules.check import check_files, check_texts


def asked(text, name="n.sh", **more):
    """The owner and the words of each question."""
    return [(one.owner, one.words, one.whole) for one in questions(read_texts({name: text, **more}))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "torchrun --nproc_per_node 8 t.py --lr 3\n",
            [("torchrun", ("--nproc_per_node", "8", "t.py", "--lr", "3"), True)],
        ),
        (
            "python -m torch.distributed.launch --use_env --nnodes=$N t.py\n",
            [("torch.distributed.launch", ("--use_env", "--nnodes=1", "t.py"), False)],
        ),
        ("torchrun $ARGS t.py --lr\n", []),
        ("torchrun --nnodes=2\n", [("torchrun", ("--nnodes=2", "program.py"), True)]),
        ("ray start --head --port=6379\n", [("ray", ("--head", "--port=6379"), True)]),
        ("echo torchrun --nnodes=2\n", []),
    ],
)
def test_the_words_of_a_launcher_are_its_parsers(text, expected):
    """All that it is handed, with a stand-in for what only a run would tell."""
    assert asked(text) == expected


def test_arguments_of_a_trainer_are_its_own_parsers():
    """Those of transformers are known by an option that every such script has, Hydra's by their form."""
    text = "torchrun t.py --per_device_train_batch_size 4 --data x\ntorchrun -m verl.trainer a.b=1 +c=[1]\n"
    assert [one[:2] for one in asked(text) if one[0] in ("transformers", "hydra")] == [
        ("transformers", ("--per_device_train_batch_size", "4", "--data", "x")),
        ("hydra", ("a.b=1", "+c=[1]")),
    ]


def answered(texts, refused):
    """The findings after the owner of the first question said this."""
    files = read_texts(texts)
    answer = Answer(questions(files)[0], "torch", "9.9", refused)
    return [(one.check, str(one.verdict), one.message) for one in check_files(files, answers=[answer])]


def test_what_an_owner_refuses_fails_with_its_words_and_version():
    """Where no rule of ours says anything."""
    assert answered({"n.sh": "torchrun --standalone --rdzv_conf=timeout t.py\n"}, "must have a value") == [
        ("launch.owner_accepts_it", "fail", "torch 9.9 refuses it: must have a value")
    ]


def test_what_is_told_already_is_told_once():
    """Ours has a fix."""
    texts = {"n.sh": "torchrun --standalone --lr 3 t.py\n"}
    assert [one[0] for one in answered(texts, "unrecognized arguments: --lr")] == ["launch.options_are_known"]


def test_what_an_owner_takes_is_not_refused_by_us():
    """Its version has an option that our table does not know."""
    texts = {"n.sh": "torchrun --standalone --lr 3 t.py\n"}
    assert [one.check for one in check_texts(texts)[0]] == ["launch.options_are_known"]
    assert answered(texts, "") == []


def test_without_answers_all_stays_as_it_is():
    """No owner is there."""
    found = check_texts({"n.sh": "torchrun --standalone --lr 3 t.py\n"})[0]
    assert settled(found, ()) == found
