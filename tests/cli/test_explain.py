"""Is every check explained in its own words, without being run?"""

from __future__ import annotations

import re

import pytest

from preflight.cli import explain, main
from preflight.diagnose.causes import CAUSES
from preflight.judge.tables.launch_rules import VERDICTS
from preflight.knowledge.variables.names import ROWS
from preflight.run.suite.plugin import checks_folder
from tests.said.test_redact import SECRETS


@pytest.fixture(scope="module")
def entries():
    """All that can be explained, read once."""
    return explain.entries()


def test_the_checks_are_told_without_being_run():
    """Id and docstring of each, in the order of the files."""
    found = list(explain.check_texts(checks_folder()))
    texts = {name: text for name, _, text in found}
    verdicts = {name: verdict for name, verdict, _ in found}
    assert verdicts["reach.every_node_answers"] == "fail"
    assert verdicts["clock.clocks_are_in_step"] == "warn"
    assert "reach.every_node_answers" in texts
    assert all("Fix:" in text for text in texts.values())


def test_explain_lists_every_check(capsys):
    """Its id, and below it the first line of its docstring."""
    assert main.run(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    functions = sum(path.read_text().count("\ndef test_") for path in checks_folder().glob("test_*.py"))
    assert len(lines) == 2 * functions
    assert all(line.startswith("    ") and line.endswith(".") for line in lines[1::2])


def test_explain_shows_what_why_and_how_to_fix(capsys):
    """A part of the id is enough; the whole docstring is shown, and after it what else speaks of the words."""
    assert main.run(["explain", "mtu"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("network.mtu_is_the_same_on_every_node (fail where it does not hold)\n\n  The training")
    assert "Fix:" in text
    assert "rdma-mtu-mismatch (found in logs by preflight diagnose)" in text


def test_a_word_is_not_found_in_the_middle_of_another(entries):
    """What "hang" finds speaks of hanging: not of what has changed, of an exchange, or of SIGHUP alone."""
    texts = [f"{entry.name}\n{entry.text}".lower() for entry in explain.search("hang", entries)]
    assert texts
    assert not [text for text in texts if not re.search(r"\bhang|_hang", text)]


def test_scattered_words_are_not_what_was_asked_for(entries):
    """Whoever asks for "out of memory" gets what says so, and not each text that has the three words somewhere."""
    for entry in explain.search("out of memory", entries):
        assert "out of memory" in f"{entry.name}\n{entry.text}".lower().replace("-", " ") or entry.patterns


def test_a_subject_explains_all_of_it(capsys):
    """Each check with the verdict that it gives where it does not hold, and the thresholds that judge."""
    assert main.run(["explain", "clock."]) == 0
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("clock.")]
    assert "clock.clocks_are_in_step (warn where it does not hold)" in shown
    assert "clock.max_offset_seconds (a threshold)" in shown
    assert shown == sorted(shown)


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("socket timeout", "store-wait-timeout"),
        ("Connection refused", "connection-refused"),
        ("duplicate GPU detected", "duplicate-gpu"),
        ("firewall", "firewall"),
        ("machine_rank", "same-rank-twice"),
        ("same_network", "launch.same_network_fits_the_rendezvous"),
        ("lfs", "launch.data_is_no_lfs_pointer"),
        ("NCCL_IB_TIMEOUT", "NCCL_IB_TIMEOUT"),
        ("offload", "launch.offload_fits_memory"),
        ("mixed_precision", "launch.precision_fits_gpus"),
        ("zero3_init", "launch.settings_fit_the_zero_stage"),
        ("nofile", "limits.enough_files_may_be_open"),
        ("fail_below", "bench.fail_below"),
    ],
)
def test_settings_errors_and_launch_rules_are_explained_by_their_own_words(entries, words, first):
    """What is most to the point stands first, whatever kind of thing it is."""
    assert explain.search(words, entries)[0].name == first


def test_an_exact_name_is_explained_alone(capsys):
    """Others may hold it too; nobody asked for them."""
    assert main.run(["explain", "network.mtu_is_the_same_on_every_node"]) == 0
    assert capsys.readouterr().out.count(" where it does not hold)") == 1


def test_every_rule_about_launch_files_is_explained():
    """With the docstring of the function that finds it broken."""
    rules = [entry for entry in explain.entries() if entry.name.startswith("launch.") and "rule" in entry.kind]
    assert len(rules) > 60
    assert all(entry.first.endswith((".", ":")) for entry in rules)


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ([name for name, _, _ in explain.check_texts(checks_folder())], "where it does not hold"),
        ([f"launch.{name}" for name in VERDICTS], "a rule about launch files"),
        ([cause.name for cause in CAUSES], "found in logs by preflight diagnose"),
        (list(ROWS), "a variable of the job"),
    ],
    ids=["checks", "launch rules", "causes", "variables"],
)
def test_everything_that_has_a_name_answers_to_it(capsys, entries, names, kind):
    """Every check, launch rule, cause and variable, with a text of its own."""
    texts = {entry.name: entry.text for entry in entries}
    assert len(names) > 60
    for name in names:
        assert explain.explain(name) == 0
        heading, _, text = capsys.readouterr().out.partition("\n\n")
        assert heading.startswith(f"{name} (")
        assert kind in heading
        assert text.strip()
        assert texts[name].strip()


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("thingamajig", "preflight explain lists the checks"),
        ("clocks_agreed", "did you mean clocks_agree"),
    ],
)
def test_what_is_not_known_is_one_line_and_4(capsys, wanted, hint):
    """With names that are spelt nearly so, or with the command that lists those that are."""
    assert main.run(["explain", wanted]) == 4
    seen = capsys.readouterr()
    assert seen.err.startswith(f"preflight: explain: nothing is known of '{wanted}'; ")
    assert hint in seen.err
    assert seen.out == ""


def test_a_line_of_a_log_that_is_asked_for_gives_no_secret_away(capsys):
    """Neither where it is known nor where it is not."""
    main.run(["explain", "\n".join(text for text, _ in SECRETS)])
    seen = capsys.readouterr()
    assert [text for text, secret in SECRETS if secret in seen.out + seen.err] == []


def test_a_file_is_read_and_not_imported(tmp_path):
    """A check of somebody's own does nothing while it is explained; functions that are no checks are left out."""
    (tmp_path / "test_mine.py").write_text(
        'import pytest\nraise SystemExit(1)\n\n@pytest.mark.advisory\ndef test_b(node):\n    """B."""\n\n'
        'def helper():\n    """No check."""\n\ndef test_a(node):\n    pass\n'
    )
    (tmp_path / "other.py").write_text("def test_c(node): ...\n")
    assert list(explain.check_texts(tmp_path)) == [("mine.b", "warn", "B."), ("mine.a", "fail", "")]
