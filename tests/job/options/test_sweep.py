"""Are sizes and names on the command line taken as nccl-tests' users mean them, and anything else refused by name?"""

from __future__ import annotations

import pytest

from preflight.job.options.options import SWEEP_WORDS, Options
from preflight.job.options.sweep import DTYPES, OPERATIONS, Sweep, parse_bytes, parse_sweep
from preflight.job.ranks.bench.operations import COLLECTIVES
from preflight.job.ranks.bench.pattern import EXACT
from preflight.said.errors import UsageError

WORDS = {word: getattr(Options(), f"bench_{word}") for word in SWEEP_WORDS}


def sweep(*, is_full=False, **words):
    return parse_sweep({**WORDS, **words}, is_full=is_full)


def test_nothing_asked_is_an_all_reduce_of_a_size_found_by_probing():
    """The defaults; the full profile takes all collectives."""
    assert sweep() == Sweep()
    assert sweep(is_full=True).operations == OPERATIONS
    assert sweep(is_full=True, op="broadcast").operations == ("broadcast",)


def test_names_are_those_that_the_ranks_know():
    """Every collective and every type of the workload, and no other."""
    assert tuple(COLLECTIVES) == OPERATIONS
    assert sorted(DTYPES) == sorted(EXACT)


@pytest.mark.parametrize(
    ("begin", "end", "factor", "sizes"),
    [
        ("8", None, None, (8,)),
        (None, "1G", None, (1 << 30,)),
        ("1M", "8M", None, (1 << 20, 1 << 21, 1 << 22, 1 << 23)),
        ("64", "4M", "256", (64, 16384, 1 << 22)),
        ("1M", "3M", "2", (1 << 20, 1 << 21)),
    ],
)
def test_sizes_go_from_begin_to_end(begin, end, factor, sizes):
    """Each `factor` x the one before, the last not beyond the end."""
    assert sweep(begin=begin, end=end, factor=factor).sizes == sizes


@pytest.mark.parametrize(
    ("text", "size"), [("8", 8), ("4k", 4096), ("32M", 32 << 20), ("32MiB", 32 << 20), ("2g", 2 << 30)]
)
def test_sizes_are_powers_of_two_whatever_their_case(text, size):
    """32M is 32 MiB."""
    assert parse_bytes("-b", text) == size


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"op": "allreduce"}, "--op 'allreduce': not supported"),
        ({"op": ","}, "--op ','"),
        ({"begin": "0"}, "-b '0': wanted bytes"),
        ({"begin": "1.5M"}, "-b '1.5M'"),
        ({"begin": "1T"}, "-b '1T'"),
        ({"end": "9000G"}, "-e '9000G'"),
        ({"begin": "8M", "end": "1M"}, "the first size is larger than the last"),
        ({"factor": "2"}, "-f 2: wanted sizes beside it"),
        ({"begin": "8", "end": "1G", "factor": "1"}, "-f '1': wanted a number from 2"),
        ({"iters": "3"}, "--iters '3': wanted a number from 6"),
        ({"warmup": "-1"}, "--warmup '-1'"),
    ],
)
def test_what_cannot_be_is_refused_by_name(words, message):
    """The option, what was given and what was wanted, on one line."""
    with pytest.raises(UsageError) as caught:
        sweep(**words)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
