"""Letters that only look like those that bash and YAML read, as web pages and word processors write them."""

from __future__ import annotations

import pytest

from preflight.launch.diff import fixed
from tests.launch.samples import config, exports, failed, judged, rules, torchrun


def pair_of(text):
    """A script of node 0 beside one of node 1, in which every letter is right."""
    return {"n0.sh": text, "n1.sh": exports(1)}


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (pair_of(exports().replace("export RANK", "export\u00a0RANK")), "a no-break space in line 1"),
        (pair_of(exports().replace("export RANK", "export\u3000RANK")), "a full-width space in line 1"),
        (pair_of(exports().replace("RANK=0", "RANK\uff1d0", 1)), "a full-width equals sign in line 1"),
        (pair_of(exports().replace("RANK=0", "RANK=\u201c0\u201d", 1)), "curly quotes in line 1"),
        ({"n0.sh": torchrun().replace("--nproc", "\u2013nproc"), "n1.sh": torchrun(1)}, "a long dash in line 3"),
        ({"n0.sh": torchrun().replace("--nproc", "\u2014nproc"), "n1.sh": torchrun(1)}, "a long dash in line 3"),
        ({"n0.yaml": config().replace("rank: ", "rank\uff1a"), "n1.yaml": config(1)}, "a full-width colon in line 6"),
        ({"n0.yaml": config().replace("rank: ", "rank:\u00a0"), "n1.yaml": config(1)}, "a no-break space in line 6"),
    ],
)
def test_a_letter_that_only_looks_right_is_the_one_finding(files, told):
    """File, line and what it is; the rest is judged as it was meant, and the patch types it anew."""
    (found,) = [finding for finding in judged(files) if str(finding.verdict) == "fail"]
    assert found.check == "launch.letters_are_plain"
    assert told in found.message
    assert "letters_are_plain" not in failed(fixed(files).texts)


@pytest.mark.parametrize(
    "line",
    [
        "echo '训练\uff1a开始 \u2013 第一步'",
        'echo "训练\uff1a开始\u00a0\u2013 第一步"',
        "# 主节点\uff1a\u2013 10.0.0.1",
        "cat <<EOF\n说明\uff1a\u2013 用\u00a0法\nEOF",
        "python prepare.py --name=数据集",
    ],
)
def test_words_in_another_script_are_words(line):
    """In quotes, comments and here-documents every letter is right."""
    assert "letters_are_plain" not in rules(pair_of(f"{line}\n{exports()}"))


def test_a_file_in_another_encoding_is_told_where_it_is_read_as_utf_8():
    """YAML refuses it; in a script it may be a word that is printed, and only warns."""
    assert "letters_are_plain" in failed({"n.yaml": config().replace("train", "\ufffd\ufffd") + "debug: \ufffd\n"})
    found = [one for one in judged(pair_of(f"NAME=\ufffd\n{exports()}")) if "letters" in one.check]
    assert [str(one.verdict) for one in found] == ["warn"]
    assert "iconv -f GBK -t UTF-8 n0.sh" in found[0].fix


@pytest.mark.parametrize("hole", ["${主节点IP}", "${当前机器rank}"])
def test_a_placeholder_that_is_no_name_of_bash_is_told_as_such(hole):
    """bash stops with `bad substitution`, whatever the environment holds."""
    found = [one for one in judged(pair_of(exports(address=hole))) if "placeholders" in one.check]
    assert found[0].message == f"{hole} was never filled in: bash stops with `bad substitution`"


def test_braces_in_yaml_are_no_variable():
    """Only a shell fills them in."""
    assert "placeholders_are_filled_in" not in rules({"n.yaml": config().replace("10.0.0.1", "${主节点IP}")})
