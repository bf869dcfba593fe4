"""How does a CI system read the run: one testcase a check and node set, with real error and skipped elements?"""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from preflight.judge.ledger.findings import Finding, Verdict
from preflight.reach.hosts import fold
from preflight.report.document import RunReport
from preflight.report.groups import Order, unjudged_text
from preflight.report.printable import printable

ELEMENTS = {Verdict.FAIL: "failure", Verdict.ERROR: "error", Verdict.SKIP: "skipped"}
NAME_LIMIT = 200


def junit_text(report: RunReport) -> str:
    """The report in JUnit's format; the declaration says UTF-8."""
    tree = _tree(report)
    ET.indent(tree, " ")
    data: bytes = ET.tostring(tree, encoding="utf-8", xml_declaration=True)
    return data.decode("utf-8") + "\n"


def _tree(report: RunReport) -> ET.Element:
    """One testsuite a subject (the file of the checks), one testcase a finding.

    Attributes and their order of children keep to the schema of Jenkins, which is the strictest in wide use.
    """
    subjects: dict[str, list[Finding]] = {}
    for finding in report.findings:
        subjects.setdefault(finding.check.rpartition(".")[0] or "preflight", []).append(finding)
    root = ET.Element(
        "testsuites",
        {
            "name": f"preflight {printable(report.run.id)}",
            **_counts(report.findings),
            "time": _time(report.run.seconds),
        },
    )
    if unjudged := unjudged_text(report):
        subjects["ledger"] = [Finding("ledger.every_cell_has_a_verdict", Verdict.ERROR, (), unjudged)]
        root.attrib.update(_counts([*report.findings, *subjects["ledger"]]))
    for number, (subject, findings) in enumerate(subjects.items()):
        root.append(_suite(report, subject, findings, number))
    return root


def _suite(report: RunReport, subject: str, findings: list[Finding], number: int) -> ET.Element:
    name = printable(subject)
    suite = ET.Element(
        "testsuite",
        {
            "name": name,
            "package": "preflight",
            "id": str(number),
            "hostname": "localhost",
            "timestamp": _timestamp(report.run.started),
            **_counts(findings),
            "skipped": str(_number(findings, Verdict.SKIP)),
            "time": _time(sum(finding.seconds for finding in findings)),
        },
    )
    properties = ET.SubElement(suite, "properties")
    values = {
        "run": report.run.id,
        "version": report.run.version,
        "command": " ".join(report.run.command),
        "profile": report.profile,
        "verdict": str(report.verdict),
    }
    for node in Order(report).of(node for finding in findings for node in finding.nodes):
        info = report.nodes.get(node)
        values[f"node {node}"] = f"{info.address} {'reached' if info.reached else 'not reached'}" if info else "unknown"
    for key, value in values.items():
        ET.SubElement(properties, "property", {"name": printable(key), "value": printable(value)})
    taken: dict[str, int] = {}
    for finding in findings:
        case = _case(finding, name)
        taken[case.attrib["name"]] = taken.get(case.attrib["name"], 0) + 1
        if taken[case.attrib["name"]] > 1:  # two long node sets may be cut to the same name
            case.attrib["name"] += f" #{taken[case.attrib['name']]}"
        suite.append(case)
    ET.SubElement(suite, "system-out")
    ET.SubElement(suite, "system-err")
    return suite


def _case(finding: Finding, classname: str) -> ET.Element:
    title = finding.check.rpartition(".")[2]
    nodes = fold(finding.nodes)
    if len(nodes) > NAME_LIMIT:
        nodes = f"{nodes[:NAME_LIMIT]}... {len(finding.nodes)} nodes"
    case = ET.Element(
        "testcase",
        {
            "name": printable(f"{title} [{nodes}]" if nodes else title),
            "classname": f"preflight.{classname}",
            "time": _time(finding.seconds),
        },
    )
    verdict = finding.counted
    if verdict in ELEMENTS:
        element = ET.SubElement(case, ELEMENTS[verdict], {"type": str(verdict), "message": printable(finding.message)})
        element.text = _body(finding)
    elif verdict is Verdict.WARN:
        ET.SubElement(case, "system-out").text = f"warning{' (waived fail)' * finding.waived}: {_body(finding)}"
    return case


def _body(finding: Finding) -> str:
    lines = [printable(finding.message, keep_newlines=True)]
    lines += [f"at {printable(where.file)}:{where.line}" for where in finding.where]
    if finding.nodes:
        lines.append(f"nodes: {printable(', '.join(finding.nodes))}")
    if finding.fix:
        lines.append(f"Fix: {printable(finding.fix, keep_newlines=True)}")
    return "\n".join(lines)


def _counts(findings: tuple[Finding, ...] | list[Finding]) -> dict[str, str]:
    return {
        "tests": str(len(findings)),
        "failures": str(_number(findings, Verdict.FAIL)),
        "errors": str(_number(findings, Verdict.ERROR)),
    }


def _number(findings: tuple[Finding, ...] | list[Finding], verdict: Verdict) -> int:
    return sum(finding.counted is verdict for finding in findings)


def _time(seconds: float) -> str:
    return f"{seconds:.3f}"


def _timestamp(started: str) -> str:
    """ISO 8601 to the second and without a zone, as the schemas want it (it is UTC)."""
    match = re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", started, re.ASCII)
    return match[0] if match else "1970-01-01T00:00:00"
