"""How does a spreadsheet read the verdicts, one line a check and one column a node?"""

from __future__ import annotations

import csv
import io

from preflight.report.material import Material
from preflight.report.matrix import rows
from preflight.report.printable import printable

# What makes a spreadsheet take a text for a formula, full-width twins included. Tab and CR are escaped before.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def matrix_csv(material: Material) -> str:
    """The matrix after RFC 4180, every field quoted; a cell that no finding names is empty."""
    report = material.report
    text = io.StringIO()
    # Quoted throughout: a field then stays one field also where a spreadsheet splits at semicolons.
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow([_inert(title) for title in ("check", "verdict", *report.nodes)])
    for row in rows(report):
        cells = ("" if verdict is None else str(verdict) for verdict in row.cells)
        writer.writerow([_inert(row.check), str(row.verdict), *cells])
    return text.getvalue()


def _inert(text: str) -> str:
    shown = printable(text)
    # Also behind spaces: some spreadsheets trim before they look.
    return f"'{shown}" if shown.lstrip().startswith(FORMULA) else shown
