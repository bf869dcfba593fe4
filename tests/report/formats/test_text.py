"""Does a person see in ten seconds what failed, where, and what to do?"""

import re
from dataclasses import replace

import msgspec
import pytest

from preflight.judge.ledger.findings import Command, Finding, Verdict, Where
from preflight.report.document import Counts
from preflight.report.formats.text import TELLING, headline, summary

THREE = ("node1", "node2", "node3")
ANSI = re.compile(r"\x1b\[\d+m")


REACH = "reach.every_node_answers"


def passing(count=5, nodes=THREE):
    return [Finding(f"ok.check{number}", Verdict.PASS, nodes, "holds") for number in range(count)]


@pytest.mark.parametrize(
    ("findings", "line"),
    [
        (passing(), "GO  3 nodes, 41 s: 5 checks passed"),
        (
            [*passing(), Finding("a.b", Verdict.WARN, ("node2",), "m")],
            "GO, WITH WARNINGS  3 nodes, 41 s: 1 check warns on node2",
        ),
        (
            [
                *passing(),
                Finding("a.b", Verdict.FAIL, ("node3",), "m"),
                Finding("a.c", Verdict.ERROR, THREE, "not started: a.b", blocked_by="a.b"),
            ],
            "NO-GO  3 nodes, 41 s: 1 check fails on node3, 1 not measured because of it",
        ),
        (
            [
                *passing(),
                Finding("a.b", Verdict.FAIL, ("node1",), "m"),
                Finding("a.c", Verdict.FAIL, ("node3",), "n"),
            ],
            "NO-GO  3 nodes, 41 s: 2 checks fail (affected: node[1,3])",  # neither of them fails on both
        ),
        (
            [
                Finding("a.b", Verdict.ERROR, ("node2",), "not reached"),
                Finding("a.c", Verdict.ERROR, THREE, "blocked by a.b", blocked_by="a.b"),
            ],
            "NOT MEASURED  3 nodes, 41 s: 1 check was not measured on node2, 1 not measured because of it",
        ),
        ([Finding("a.b", Verdict.SKIP, THREE, "m")], "NOTHING JUDGED  3 nodes, 41 s: no check applied"),
        ([], "NOTHING JUDGED  3 nodes, 41 s: no check applied"),
    ],
)
def test_the_first_line_is_the_verdict_in_plain_words(make_report, findings, line):
    """What, how many nodes, how long, and which nodes are the cause."""
    report = make_report(*findings)
    assert headline(report) == line
    assert " ".join(summary(report, width=200).splitlines()[0].split()) == " ".join(line.split())


def test_an_interrupted_run_and_one_without_end_say_so(make_report):
    """Neither reads as GO, whatever was found until then."""
    cut = make_report(
        *passing(),
        verdict=Verdict.ERROR,
        exit_code=130,
        finished=False,
        ledger=Counts(expected=20, judged=15, not_asked=0),
    )
    assert headline(cut).startswith("INTERRUPTED  ")
    assert "no verdict for 5 of 20 pairs of check and node" in headline(cut)
    assert headline(msgspec.structs.replace(cut, exit_code=3)).startswith("UNFINISHED  ")


def test_a_run_that_broke_outside_the_checks_does_not_boast_of_those_that_passed(make_report):
    """A file of checks that cannot be collected leaves no finding, and is no GO."""
    report = make_report(*passing(), verdict=Verdict.ERROR, exit_code=3)
    assert headline(report) == "NOT MEASURED  3 nodes, 41 s: the run broke outside the checks"


def test_a_fail_shows_check_nodes_message_and_fix(full_report):
    """In this order, before anything else, each on its own line."""
    lines = summary(full_report, width=100).splitlines()
    assert lines[2:5] == [
        "FAIL   network.mtu_is_the_same  node3",
        "       mtu: 9000 on node[1-2], 1500 on node3",
        "       Fix: raise it",
    ]


def test_findings_come_by_verdict_worst_first(full_report):
    """Fail, error, warn, and then what passed; with -v what does not apply stands before it."""
    found = re.findall(r"^(FAIL|ERROR|WARN|SKIP|PASS)", summary(full_report), re.MULTILINE)
    assert found == ["FAIL", "ERROR", "WARN"]
    text = summary(full_report, width=100)
    assert "ERROR  1 check not measured because of network.mtu_is_the_same on node3" in text
    assert "SKIP   1 check: no GPU on any node" in summary(full_report, width=100, with_skips=True)


def test_consequences_fold_into_one_line_and_skips_are_silent(make_report):
    """Forty checks blocked by one cause take a line that names it; what does not apply is only counted."""
    report = make_report(
        Finding(
            "reach.every_node_answers", Verdict.ERROR, ("node2",), "not reached: Connection refused", "ssh node2 true"
        ),
        *(Finding(f"b.c{n}", Verdict.ERROR, ("node2",), f"blocked by {REACH}", blocked_by=REACH) for n in range(40)),
        *(Finding(f"g.c{n}", Verdict.SKIP, THREE, "no GPU on any node") for n in range(20)),
        *passing(),
    )
    text = summary(report)
    assert "ERROR  40 checks not measured because of reach.every_node_answers on node2\n" in text
    assert "PASS   5 checks; 20 do not apply (-v says why)\n" in text
    assert "SKIP" not in text
    assert text.index("Connection refused") < text.index("ERROR  40 checks")
    in_full = summary(report, with_skips=True)
    assert "SKIP   20 checks: no GPU on any node\nPASS   5 checks\n" in in_full
    assert "Fix: ssh node2 true" in text


def test_checks_skipped_for_rare_reasons_are_named(make_report):
    """Three reasons have lines of their own; of the others the ids are there, and how to see all of them."""
    common = (Finding(f"g.c{n}", Verdict.SKIP, THREE, f"reason {n // 2}") for n in range(6))
    rare = [Finding(f"r.c{n}", Verdict.SKIP, THREE, f"rare reason {n}") for n in range(10)]
    text = " ".join(summary(make_report(*common, *rare), with_skips=True).split())
    assert "SKIP 10 checks for other reasons: r.c0, r.c1, r.c2," in text
    assert "r.c7 and 2 more (-v lists all)" in text
    few = summary(make_report(*(Finding(f"g.c{n}", Verdict.SKIP, THREE, f"reason {n}") for n in range(4))))
    assert "SKIP   1 check for other reasons: g.c3\n" in few


def test_a_chain_of_consequences_is_told_by_its_head(make_report):
    """What is blocked by something blocked has the same cause; of many causes three are named."""
    chain = [
        Finding("n.cause", Verdict.FAIL, ("node3",), "m"),
        Finding("n.next", Verdict.ERROR, ("node3",), "blocked", blocked_by="n.cause"),
        Finding("n.last", Verdict.ERROR, THREE, "blocked", blocked_by="n.next"),
    ]
    assert "ERROR  2 checks not measured because of n.cause on node3\n" in summary(make_report(*chain))
    many = [Finding(f"c.{n}", Verdict.FAIL, THREE, "m") for n in range(5)]
    many += [Finding(f"d.{n}", Verdict.ERROR, THREE, "m", blocked_by=f"c.{n}") for n in range(5)]
    text = " ".join(summary(make_report(*many)).split())
    assert "5 checks not measured because of c.0 on all 3 nodes, c.1 on all 3 nodes, c.2 on all 3 nodes, 2 more" in text


def test_the_words_of_a_fix_are_shown_where_no_command_is_known(make_report):
    """A command that a test has typed stands alone; one that none has typed stands under the words."""
    tried = Command("node3", "ip link set dev eth0 mtu 9000")
    fault = Finding("n.mtu", Verdict.FAIL, ("node3",), "mtu", "raise it", commands=(tried,))
    text = summary(make_report(fault))
    assert "ssh node3 ip link set dev eth0 mtu 9000" in text
    assert "Fix: raise it" not in text
    untried = replace(fault, commands=(replace(tried, is_tried=False),))
    partly = replace(fault, nodes=("node2",), message="no mtu", commands=())
    assert "Fix: raise it" in summary(make_report(untried))
    assert "Fix: raise it" in summary(make_report(fault, partly))


def test_what_the_verb_prints_itself_is_not_told_twice(full_report):
    """bench and train print their own table below the summary."""
    assert "\nbench " in summary(full_report)
    assert "\nbench " not in summary(full_report, told_apart="bench")
    assert "\ntraining " not in summary(full_report, told_apart="training")


def big(make_report, count):
    """A cluster with everything wrong at once, and words that differ from node to node."""
    names = tuple(f"node{number}" for number in range(1, count + 1))
    findings = []
    for check in range(20):
        findings += [
            Finding(
                f"limits.check{check}",
                Verdict.FAIL,
                (name,),
                f"memlock is {index} KiB " + "words " * 80,
                "ulimit -l unlimited",
            )
            for index, name in enumerate(names)
        ]
        findings.append(Finding(f"w.check{check}", Verdict.WARN, names[::2], f"warning {check}"))
        findings.append(Finding(f"s.check{check}", Verdict.SKIP, names, f"reason {check}"))
        findings += [Finding(f"e.check{check}", Verdict.ERROR, (name,), f"timed out on {name}") for name in names]
    return make_report(*findings, *passing(nodes=names), size=count, notes=tuple(f"note {n}" for n in range(50)))


@pytest.mark.parametrize("count", [3, 300])
def test_the_summary_fits_a_screen_whatever_went_wrong(make_report, full_report, count):
    """The worst case of 3 and of 300 nodes stays near 60 lines, a usual fail far below; the rest is counted."""
    text = summary(big(make_report, count), width=100)
    assert len(text.splitlines()) <= 66
    assert re.search(r"and \d+ more messages? in report.json", text)
    assert "more checks on all" in text
    assert max(len(line) for line in text.splitlines()) <= 100
    assert len(summary(full_report).splitlines()) <= 40
    assert len(summary(msgspec.structs.replace(full_report, changes=None)).splitlines()) <= 28


def test_what_has_changed_stands_below_the_measurements(full_report):
    """The earlier run by name, a line a change, none longer than the terminal."""
    lines = summary(full_report, width=60).splitlines()
    assert any(line.startswith("since run mtu (pass): 1 new, 1 fixed") for line in lines)
    assert any(line.startswith("new       pass -> fail  network.mtu_is_the_same on node1") for line in lines)
    assert [line for line in lines if line.startswith(("new", "busbw")) and len(line) > 60] == []


def test_many_nodes_are_folded_and_cut_with_their_number(make_report):
    """All nodes are called so; a set that folds badly ends with its count."""
    names = tuple(f"node{number}" for number in range(1, 301))
    assert "all 300 nodes" in summary(make_report(Finding("a.b", Verdict.FAIL, names, "m"), size=300))
    assert "node[1-299]" in summary(make_report(Finding("a.b", Verdict.FAIL, names[:-1], "m"), size=300))
    assert "... (150 nodes)" in summary(make_report(Finding("a.b", Verdict.FAIL, names[::2], "m"), size=300))


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_long_messages_are_wrapped_at_words_and_commands_are_not(make_report, width):
    """A narrow terminal breaks sentences, never a path or the command to paste."""
    fix = "ip link set dev eth0 mtu 9000 && " * 10 + "true"
    message = "the interface " * 12 + "/a/very/long/path/" + "x" * 60
    text = summary(make_report(Finding("a.b", Verdict.FAIL, ("node1",), message, fix)), width=width)
    assert f"Fix: {fix}\n" in text
    for line in text.splitlines():
        assert len(line) <= max(width, 40) or "Fix:" in line or "/a/very/long/path/" + "x" * 60 in line


def test_one_check_with_many_messages_is_one_cause(make_report):
    """Figures that differ from node to node do not hide that the remedy is the same."""
    names = tuple(f"node{number}" for number in range(1, 31))
    findings = [Finding("a.b", Verdict.FAIL, (name,), f"{index} KiB", "raise it") for index, name in enumerate(names)]
    lines = summary(make_report(*findings, size=300)).splitlines()
    assert lines[2:8] == [
        "FAIL   a.b  node[1-30]",
        "       node1: 0 KiB",
        "       node2: 1 KiB",
        "       ... and 28 more messages in report.json",
        "       Fix: raise it",
        "",
    ]


def test_an_endless_message_is_cut_and_says_where_the_rest_is(make_report):
    """One finding cannot push the others off the screen."""
    text = summary(make_report(Finding("a.b", Verdict.FAIL, ("node1",), "line\n" * 500)))
    assert text.count("line\n") == 4
    assert "report.json" in text


def test_lines_of_the_users_files_are_named(make_report):
    """Where to edit stands beside what is wrong."""
    text = summary(make_report(Finding("launch.port", Verdict.FAIL, (), "ports differ", where=(Where("a.yaml", 3),))))
    assert "       at a.yaml:3\n" in text
    assert "no node" in text


def test_what_was_not_asked_and_what_was_waived_is_said(make_report):
    """Neither is a pass."""
    report = make_report(
        *passing(),
        Finding("a.b", Verdict.FAIL, ("node1",), "m", waived=True),
        ledger=Counts(expected=16, judged=16, not_asked=4),
        not_asked={"profile quick": ("b.a", "b.b", "b.c", "b.d")},
    )
    assert "       4 checks not asked for (profile quick)\n" in summary(report)
    assert "WARN   a.b  node1 (waived)" in summary(report)


def test_the_last_lines_are_time_notes_folder_and_exit_code(full_report):
    """Where the rest is, and what a script sees."""
    lines = summary(full_report, directory="reports/x").splitlines()
    assert lines[-4:] == [
        "time      facts 1.2 s, mesh 0.5 s",
        "note      node1: text before our replies",
        "report    reports/x",
        "exit code 1",
    ]


def test_colour_is_only_there_when_asked_for(full_report):
    """The words are the same with it, and every line ends without it."""
    plain = summary(full_report)
    painted = summary(full_report, colour=True)
    assert "\x1b" not in plain
    assert ANSI.sub("", painted) == plain
    assert painted.startswith("\x1b[31mNO-GO\x1b[0m")


def test_hostile_text_reaches_no_terminal(hostile_report):
    """No control character, no command to a CI system, also where lines are wrapped."""
    for width in (40, 80):
        text = summary(hostile_report, directory="reports/x", width=width)
        text.encode()
        assert all(letter == "\n" or letter.isprintable() for letter in text)
        assert not re.search(r"^\s*::[a-z]", text, re.MULTILINE)
        assert "##vso[" not in text


def test_one_line_and_every_check_are_told_on_request(full_report):
    """-q says the verdict, the first cause and where the rest is, -v each check with its nodes above the summary."""
    line = TELLING["line"](full_report, directory="reports/x", width=80)
    verdict = "NO-GO  3 nodes, 41 s: 1 check fails on node3, 1 not measured because of it, 1 check warns"
    cause = "network.mtu_is_the_same: mtu: 9000 on node[1-2], 1500 on node3"
    assert line == f"{verdict}; {cause}; reports/x\n"
    lines = TELLING["checks"](full_report, directory="reports/x", width=80).splitlines()
    assert lines[:2] == ["FAIL   network.mtu_is_the_same  node3", "PASS   network.mtu_is_the_same  node[1-2]"]
    assert len([name for name in lines[:5] if name]) == 5
    assert lines[6].startswith("NO-GO")
