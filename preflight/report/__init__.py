"""What became of a run, for a person, a program and a CI system.

``run``        RunReport: everything the formats say, and its JSON document
``material``   RunReport, facts in words and logs: what a format draws from
``text``       the summary on the terminal
``groups``     what belongs together for a reader
``causes``     what there is to repair, one card each
``matrix``     check x node
``plan``       the launch files as tables
``measurements``  mesh, bench and training in a few lines
``table``      the benchmark as nccl-tests prints it
``json``       report.json, and reading it again
``html``       report.html, with ``plots``, ``figures``, ``heatmap`` and ``strip`` for its pictures
``markdown``   report.md, for a pull request or an issue
``junit``      junit.xml
``metrics``    report.prom, for Prometheus
``nagios``     one line for a monitoring system
``csv``        matrix.csv
``commands``   the lines that put nodes right, and all of them as a script
``hostlists``  good and bad nodes for launchers and schedulers
``annotations``  findings on the lines of a pull request: GitHub, SARIF
``printable``  no control character of a node reaches an output
``files``      whole files or none
"""

from __future__ import annotations

from collections.abc import Callable

from preflight.report.formats.commands import script
from preflight.report.formats.csv import matrix_csv
from preflight.report.formats.hostlists import bad_hostfile, good_hostfile, nodes_json, slurm_exclude
from preflight.report.formats.junit import junit_text
from preflight.report.formats.markdown import markdown_text
from preflight.report.formats.metrics import metrics_text
from preflight.report.formats.nagios import nagios_line
from preflight.report.json import json_text
from preflight.report.material import Material


def _html(material: Material) -> str:
    from preflight.report.html.page import html_text  # Jinja2 takes 50 ms to import: not for every start

    return html_text(material)


FORMATS: dict[str, Callable[[Material], str]] = {
    "json": lambda material: json_text(material.report),
    "html": _html,
    "markdown": markdown_text,
    "junit": lambda material: junit_text(material.report),
    "prometheus": metrics_text,
    "csv": matrix_csv,
    "nagios": nagios_line,
    "good": good_hostfile,
    "bad": bad_hostfile,
    "exclude": slurm_exclude,
    "nodes": nodes_json,
    "fix": lambda material: script(material.report, material.language),
}
# The formats that every run leaves in its folder. report.json comes first: it is what the others derive from.
FILES = {
    "json": "report.json",
    "html": "report.html",
    "markdown": "report.md",
    "junit": "junit.xml",
    "prometheus": "report.prom",
    "csv": "matrix.csv",
    "good": "nodes-good.txt",
    "bad": "nodes-bad.txt",
}
