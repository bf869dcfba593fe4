"""Is one who mistypes a word told what was probably meant, in one line?"""

from __future__ import annotations

import pytest

from preflight.cli.main import parser_of
from preflight.said.errors import UsageError


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["bnech"], "did you mean bench?"),
        (["run", "--profile=quik"], "did you mean quick?"),
        (["run", "--hots=node1"], "did you mean --hosts?"),
        (["run", "--bench-mod=x"], "did you mean --bench-mode?"),
        (["train", "--launcher=torchrn"], "did you mean torchrun?"),
        (["check", "node1.sh"], "did you mean launch check?"),
        (["logs", "rank0.log"], "did you mean diagnose?"),
        (["bench", "--hosts", "node1", "node2"], "several hosts are one word: --hosts=node1,node2"),
    ],
)
def test_what_was_probably_meant_is_said(words, meant):
    """A verb, an option, a value, and what other tools call the same."""
    with pytest.raises(UsageError) as told:
        parser_of(words).parse_args(words)
    assert meant in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("words", [["zzzzzz"], ["run", "--zzzzzz"]])
def test_nothing_is_guessed_where_nothing_is_like_it(words):
    """A wrong guess is worse than none."""
    with pytest.raises(UsageError, match=r"^(?!.*did you mean).*see preflight --help$"):
        parser_of(words).parse_args(words)
