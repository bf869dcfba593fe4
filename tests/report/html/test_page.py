"""Is the page whole, closed, quiet about the network, and small enough?"""

from __future__ import annotations

import base64
import hashlib
import re

import msgspec
import pytest

from preflight.facts.results import Device, Edge, JobFailure, Mesh, Stream
from preflight.judge.ledger.findings import Finding, Verdict, Where
from preflight.report.document import Counts
from preflight.report.html.page import SIZE_LIMIT_BYTES, html_text
from preflight.report.language import chosen
from preflight.report.material import Material
from tests.report.readers import Page

FACTS = {
    "node1": {"hostname": "node1", "its MTU": "9000", "kernel": "6.1"},
    "node2": {"hostname": "node2", "its MTU": "9000", "kernel": "6.1"},
    "node3": {"hostname": "node3", "its MTU": "1500", "kernel": "6.1"},
}


def page_of(report, **more):
    return Page(html_text(Material(report, **more)))


def test_verdict_then_cause_then_fix_then_the_rest(planted):
    """In the order in which a person asks."""
    page = page_of(planted, facts=FACTS, logs={"bench-rank0-node1.log": "hello"})
    text = f"{page.text(inside='h1')} {page.text(inside='main')}"
    order = [
        "NO-GO",
        "1 check fails on node3",
        "network.mtu_is_the_same_on_every_node",
        "9000 on node[1-2], 1500 on node3",
        "ip link set dev <interface> mtu",
        "6 checks not measured because of network.mtu_is_the_same_on_every_node on node3",
        "Every check on every node",
        "worst verdict",
        "What each node is",
        "Bandwidth",
        "Reference training",
        "preflight run --hosts 'node[1-3]'",
        "facts 0.4 s",
        "bench-rank0-node1.log",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_it_loads_nothing_and_lets_nothing_else_act(planted):
    """The policy allows our script and style by their hashes, and nothing else; no address stands in it."""
    page = page_of(planted)
    assert page.declarations == ["DOCTYPE html"]
    metas = [attributes for tag, attributes in page.elements if tag == "meta"]
    (policy,) = [meta["content"] for meta in metas if meta.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for kind, text in (("script-src", page.script("")), ("style-src", page.text(inside="style"))):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[kind] == f"'sha256-{digest}'"
    html = html_text(Material(planted))
    assert "http://" not in html
    assert "https://" not in html
    assert "unsafe" not in policy


def test_ids_are_unique_and_every_link_leads_somewhere(full_report):
    """Each part in the list of parts is there."""
    page = page_of(full_report, facts=FACTS)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    links = {attributes["href"][1:] for tag, attributes in page.elements if tag == "a"}
    checks = {f"check={finding.check}" for finding in full_report.findings}
    assert links & checks
    assert links - checks <= set(ids)
    assert {"matrix", "nodes", "facts", "bandwidth", "training", "run"} <= links


def test_facts_that_differ_are_marked_and_come_first(planted):
    """A hostname may differ; an MTU may not."""
    page = page_of(planted, facts=FACTS)
    rows = [attributes.get("class") for tag, attributes in page.elements if tag == "tr"]
    assert rows.count("differs") == 1
    text = " ".join(page.text().split())
    assert "its MTU differs 9000 node[1-2] 1500 node3" in text
    assert "hostname own node1 node1" in text
    assert "kernel same 6.1" in text


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_has_a_page(make_report, verdict):
    """GO and the others, with one finding and nothing measured."""
    page = page_of(make_report(Finding("a.b", verdict, ("node1",), "m", where=(Where("job.sh", 3),))))
    words = {
        "pass": "GO",
        "warn": "GO, WITH WARNINGS",
        "fail": "NO-GO",
        "error": "NOT MEASURED",
        "skip": "NOTHING JUDGED",
    }
    assert words[str(verdict)] in page.text(inside="h1")
    assert ("job.sh:3" in page.text()) is (verdict not in {Verdict.PASS, Verdict.SKIP})


def test_a_run_without_anything_has_a_page(make_report):
    """No finding, no fact, no measurement; and one that broke before its end."""
    assert "No check was judged" in page_of(make_report()).text()
    cut = make_report(
        finished=False, verdict=Verdict.ERROR, exit_code=130, ledger=Counts(expected=5, judged=0, not_asked=2)
    )
    text = page_of(cut).text()
    assert "INTERRUPTED" in text
    assert "no verdict for 5 of 5 pairs of check and node" in " ".join(text.split())
    assert "2 checks not asked" in text


def test_jobs_that_gave_nothing_say_why(make_report, bench, training):
    """The section stands, with the reason in place of plots."""
    empty = make_report(
        Finding("a.b", Verdict.ERROR, ("node1",), "m"),
        bench=msgspec.structs.replace(bench, results=(), expected=None, slow=(), not_measured="rank 2 said nothing"),
        training=msgspec.structs.replace(
            training, losses=(), ranks=(), not_measured="not started", not_measured_nodes=("node3",)
        ),
    )
    text = page_of(empty).text()
    assert "rank 2 said nothing" in text
    assert "(node3)" in text


def test_devices_and_groups_are_told_with_the_bandwidth(make_report, bench):
    """What each GPU does alone, with nothing where nothing was measured; and the group that a figure is of."""
    devices = (
        Device(
            rank=0,
            node="node1",
            device="cuda:0",
            model="NVIDIA H200",
            matmul_tflops_per_s=711.5,
            matmul_dtype="bfloat16",
            wrong=0,
            memory_gbytes_per_s=4321.0,
            to_device_gbytes_per_s=54.5,
            from_device_gbytes_per_s=53.5,
        ),
        Device(
            rank=1,
            node="node2",
            device="cuda:0",
            model="NVIDIA H200",
            matmul_tflops_per_s=702.25,
            matmul_dtype="bfloat16",
            wrong=3,
        ),
    )
    results = (msgspec.structs.replace(bench.results[0], group="rail 3"),)
    measured = msgspec.structs.replace(bench, devices=devices, results=results, devices_not_measured="rank 5 said no")
    text = " ".join(page_of(make_report(bench=measured)).text().split())
    assert "0 node1 cuda:0 NVIDIA H200 711.5 bfloat16 4321 54.5 53.5 0" in text
    assert "1 node2 cuda:0 NVIDIA H200 702.2 bfloat16 3" in text
    assert f"{bench.results[0].op} (rail 3)" in text
    assert "was not measured: rank 5 said no" in text


def test_how_the_reference_job_was_started_stands_with_the_plan(make_report):
    """Or why it was not."""
    plan = {"launches": [], "ranks": [{"rank": 0, "node": "node1"}], "reference_job": "by srun: not started"}
    assert "by srun: not started" in page_of(make_report(plan=plan)).text()


def test_pairs_are_drawn_from_streams_and_from_failed_connections(make_report, bench):
    """A square with a cell a pair, and the worst pairs in words."""
    streams = (
        Stream(source="node1", target="node2", shift=1, gbytes_per_s=1.0),
        Stream(source="node2", target="node3", shift=1, gbytes_per_s=0.3),
    )
    report = make_report(
        bench=msgspec.structs.replace(bench, streams=streams),
        mesh=Mesh(edges=6, ok=5, failed=(Edge(source="node3", target="node1", port=40001, reason="filtered"),)),
    )
    page = page_of(report)
    assert [attributes["class"] for tag, attributes in page.elements if attributes.get("class") == "heat"] == ["heat"]
    assert "node3 node1 fail filtered node2 node3 0.3 node1 node2 1" in " ".join(page.text().split())


def test_the_rest_is_counted_where_a_page_would_grow_too_large(make_report):
    """Every node its own words in every check, long logs and facts without end: still below three megabytes."""
    names = tuple(f"node{number}" for number in range(1, 201))
    findings = [
        Finding(f"a.check{check}", Verdict.FAIL, (name,), f"{name} " + "<&> " * 400, "fix " * 100)
        for check in range(40)
        for name in names
    ]
    facts = {name: {f"fact {number}": f"{name} " * 100 for number in range(40)} for name in names}
    html = html_text(Material(make_report(*findings, size=200), facts, {f"{n}.log": "x" * 10_000 for n in names}))
    assert len(html.encode()) <= SIZE_LIMIT_BYTES
    text = " ".join(Page(html).text().split())
    assert "more findings in report.json" in text
    assert "more checks: see the matrix below" in text
    assert "node1 has" not in text


def test_templates_do_not_run_what_they_are_given(make_report):
    """Braces of Jinja in a message are braces."""
    assert "{{ 7*7 }}" in page_of(make_report(Finding("a.b", Verdict.FAIL, ("node1",), "{{ 7*7 }}"))).text()


@pytest.mark.parametrize(("failed", "is_told"), [(True, True), (False, False)])
def test_what_broke_a_training_is_read_from_the_logs_of_its_ranks(make_report, training, failed, is_told):
    """The cause with its evidence; a job that passed may print what it likes."""
    failure = JobFailure(nodes=("node3",), is_proven=True, message="rank 2 died") if failed else None
    report = make_report(training=msgspec.structs.replace(training, failure=failure))
    logs = {
        "train-rank2-node3.log": "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    }
    page = html_text(Material(report, logs=logs))
    assert ("What broke the reference job" in page) is is_told
    assert ("train-rank2-node3.log:1" in page) is is_told


def test_a_page_in_chinese_names_its_verdicts_and_changes_in_chinese(full_report):
    """In tags, columns, boxes, counts and changes; programs read the English words in report.json."""
    page = page_of(full_report, facts=FACTS, language=chosen("zh", {}))
    text = page.text(inside="main")
    assert "新出现" in text
    assert "1 不通过" in text
    assert [word for word in ("fail", "warn", "skip", "pass", "new", "fixed", "standing") if word in text.split()] == []


def test_the_logs_of_thousands_of_ranks_are_not_all_on_the_page(planted):
    """So many as nodes in the table, and the number of the others."""
    page = html_text(Material(planted, FACTS, {f"rank{number}.log": "a line\n" for number in range(1100)}))
    assert page.count("<pre tabindex") == 1024
    assert "and 76 more in logs/" in page


def test_what_was_typed_and_what_nodes_are_called_stay_as_they_are_in_chinese(full_report):
    """A command is there to be typed again; a node may be called as one of our words; so may a class of the style."""
    run = msgspec.structs.replace(full_report.run, command=("preflight", "run", "--hosts", "bench"))
    nodes = {"bench" if name == "node1" else name: info for name, info in full_report.nodes.items()}
    page = html_text(Material(msgspec.structs.replace(full_report, run=run, nodes=nodes), language=chosen("zh", {})))
    assert '<pre class="command" tabindex="0">preflight run --hosts bench</pre>' in page
    assert "<bdi>bench</bdi>" in page
    assert '<path class="expected"' in page
    assert re.findall(r'class="[^"]*[^\x00-\x7f]', page) == []
