"""Is an error told that no cause explains, and nothing that only has its words?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose, diagnose_texts


def named(*lines: str) -> list[str]:
    """What is found."""
    diagnosis = diagnose(list(lines))
    return [one.cause.name for one in (*diagnosis.causes, *diagnosis.consequences)]


@pytest.mark.parametrize(
    "line",
    [
        "ERROR flux capacitor 3 is not charged",
        "frobnicate: cannot reach the mothership",
        "[rank1]: fatal: lane 7 is closed",
        "Command 'frob' returned non-zero exit status 3.",
    ],
)
def test_an_error_at_the_end_is_told(line):
    """Whoever prints it."""
    assert named("[rank0]: step 1 loss 2", line) == ["failure-not-explained"]
    assert diagnose(["[rank0]: step 1 loss 2", line]).outcome.exit_code == 1


@pytest.mark.parametrize(
    "line",
    [
        "word error rate: 12.3",
        "training error 12.31 validation error 14.2",
        "INFO frobnicator failed on lane 7",
        "frobnicator failed on lane 7, retrying in 3 s",
        "max_failures: 3",
        "12 passed, 0 failed in 3.2s",
        "--no-save-on-error",
        "{'completion': 'an error occurred', 'reward': 0}",
        "UserWarning: the plug-in failed to load",
        "E external/local_xla/xla/cuda_dnn.cc:9261] Unable to register cuDNN factory: one has already been registered",
    ],
)
def test_words_of_errors_alone_are_none(line):
    """Metrics, settings, levels below an error, tries and quotes."""
    assert named("[rank0]: step 1 loss 2", line) == []


def test_an_error_that_the_job_went_on_after_is_none():
    """One step is enough; those of other ranks that only catch up are none."""
    steps = [f"[rank0]: step {step} loss 2" for step in range(9)]
    late = [f"[rank1]: step {step} loss 2" for step in range(9)]
    assert named("cannot load the fast kernels", *steps[:1]) == []
    assert named(*steps, "lane 7 failed", "[rank0]: step 10 loss 2") == []
    assert named(*steps, "lane 7 failed", *late) == ["failure-not-explained"]


def test_an_error_after_which_the_program_says_much_more_is_not_what_ended_it():
    """A logger calls an error what the program does without."""
    error = "ERROR 07-31 16:21:40 [fa_utils.py:57] Cannot use FA version 2: it is only supported on newer devices"
    after = [
        f"INFO 07-31 16:21:4{n % 10} [loader.py:{n}] loading part {'abcdefghijklmnopqrstuvwxyz'[n]}" for n in range(20)
    ]
    assert diagnose([error, *after[:3]]).has_failed
    assert not diagnose([error, *after]).has_failed


def test_an_error_of_one_file_is_told_though_another_goes_on():
    """Each is judged by its own end."""
    after = "\n".join(f"loading part {letter}" for letter in "abcdefghijklmnopqrstuvwxyz")
    texts = {"a.log": f"cannot open the odd thing\n{after}", "b.log": "cannot open the other thing"}
    found = [one for one in diagnose_texts(texts).consequences if one.cause.name == "failure-not-explained"]
    assert [one.file for finding in found for one in finding.evidence] == ["b.log"]


def test_a_member_of_a_json_document_is_no_error():
    """A program prints what it found out, one member a line; a whole document in one line is a logger's."""
    assert not diagnose(["{", '  "error": "Expecting property name in line 1",', '  "score": 3', "}"]).has_failed
    assert diagnose(['{"level": "error", "message": "cannot open the thing"}']).has_failed


def test_a_sentence_that_people_wrote_is_no_error():
    """Of a prompt that a program prints; a program's own sentence tells where or of what."""
    prompt = "Failure to follow the format will result in an error and you will need to regenerate your message."
    assert not diagnose([prompt]).has_failed
    assert diagnose(
        ["Failure to open the file /data/x will result in an error and the program will end at once."]
    ).has_failed
