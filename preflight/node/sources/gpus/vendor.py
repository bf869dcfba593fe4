"""What do the vendors' own tests say of GPUs: DCGM's diagnostics, nvbandwidth, ROCm's Validation Suite, AGFHC?

Each parser gives findings, [test, GPU, "pass" | "warn" | "fail" | "skip", words], or figures; ValueError where the
output is not whole. The forms are those of DCGM 3 (a result has "gpu_ids") and 4 ("entity_id"), of nvbandwidth 0.5 to
0.8 (JSON, or text as before 0.4) of rvs and of AGFHC (https://instinct.docs.amd.com).
"""

from __future__ import annotations

import re

from preflight.node.sources.gpus import printed_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Findings = list[list[str]]
    Cell = tuple[str, int, int, float]

STATUS = {
    "pass": "pass",
    "fail": "fail",
    "warn": "warn",
    "skip": "skip",
    "skipped": "skip",
    "not run": "skip",
    "": "skip",
}
DIAGNOSTIC = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
MOST_WORDS = 300
TIME = r"^\[ *(?:RESULT|INFO) *\] *\[ *[\d.]+\] *"
RVS_LINE = re.compile(TIME + r"\[ *([^\]]+?) *\](.*)$", re.MULTILINE)
RVS_VERDICT = re.compile(r"\b(?:met|pass) *: *(TRUE|FALSE)\b", re.IGNORECASE)
RVS_GPU = re.compile(r"\bGPU *:: *(\d+)|\bgpu (?:id )?(\d+)", re.IGNORECASE)
# "  PASS: hbm_bw-1-1   [00:01:02/00:01:05]", and what a test that failed says in the lines below it, set in further.
AGFHC_LINE = re.compile(r"^ *([A-Z]{4,}): +([\w.-]+-\d+-\d+)\b[^\n]*((?:\n {5,}[^\n]+)*)", re.MULTILINE)
AGFHC_SUMMARY = re.compile(r"^ *Tests: \d+ Total, (\d+) Executed", re.MULTILINE)
AGFHC_END = re.compile(r"^Program exiting with return code (AGFHC_\w+) \[(-?\d+)\]", re.MULTILINE)
MATRIX_ROW = re.compile(r"^\s*(\d+)((?:\s+(?:[\d.]+|N/A))+)\s*$")
WRONG_DATA = "Invalid value when checking the pattern"


def dcgm(text: str) -> Findings:
    """The findings of `dcgmi diag -j`."""
    reported = document(text)
    held = [
        reported[name] for name in DIAGNOSTIC if isinstance(reported, dict) and isinstance(reported.get(name), dict)
    ]
    diagnostic = held[0] if held else {}
    if not held:
        raise ValueError(f"no diagnostic in what dcgmi printed: {_end(text)}")
    if diagnostic.get("runtime_error"):
        raise ValueError(f"dcgmi says {' '.join(str(diagnostic['runtime_error']).split())[:MOST_WORDS]}")
    found: Findings = []
    for category in diagnostic.get("test_categories") or []:
        for test in category.get("tests") or []:
            for result in (test or {}).get("results") or []:  # DCGM 3 writes null between tests
                found.append(_dcgm_result(str(test["name"]), result))
            summary = (test or {}).get("test_summary")
            if summary and not test.get("results"):
                found.append(_dcgm_result(str(test["name"]), summary))
    if not any(status != "skip" for _, _, status, _ in found):
        raise ValueError(f"dcgmi ran no test: {_end(text)}")
    return found


def _dcgm_result(name: str, result: dict[str, Any]) -> list[str]:
    status = str(result.get("status", "")).strip().lower()
    if status not in STATUS:
        raise ValueError(f"dcgmi says {status[:100]} of {name}")
    which = str(result.get("entity_id", result.get("gpu_ids", result.get("gpu_id", ""))))
    if str(result.get("entity_group", "GPU")) != "GPU":
        which = f"{result['entity_group']} {which}"
    warnings = result.get("warnings") or []
    warnings = warnings if isinstance(warnings, list) else [warnings]
    words = "; ".join(str(one.get("warning", one)) if isinstance(one, dict) else str(one) for one in warnings)
    return [name, which, STATUS[status], " ".join(words.split())[:MOST_WORDS]]


def nvbandwidth(text: str) -> list[Any]:
    """GB/s of each copy that `nvbandwidth` made, (test, row, column, figure), and what was wrong with the data.

    A copy of a GPU to itself is none.
    """
    if WRONG_DATA in text:
        return [[], f"what it copied arrived changed: {_end(text)}"]
    cells = (
        _of_json(document(text), text) if text.lstrip().startswith("{") or '"nvbandwidth"' in text else _of_text(text)
    )
    if not cells:
        raise ValueError(f"nvbandwidth measured nothing: {_end(text)}")
    return [cells, ""]


def _of_json(reported: Any, text: str) -> list[Cell]:
    held = reported.get("nvbandwidth", {}) if isinstance(reported, dict) else {}
    if held.get("error"):
        raise ValueError(f"nvbandwidth says {' '.join(str(held['error']).split())[:MOST_WORDS]}")
    cells: list[Cell] = []
    for test in held.get("testcases") or []:
        status = str(test.get("status", ""))
        if status == "Waived":
            continue
        if status != "Passed":
            raise ValueError(f"nvbandwidth says {status or 'nothing'} of {test.get('name')}: {_end(text)}")
        for row, values in enumerate(test.get("bandwidth_matrix") or []):
            cells += [
                (str(test["name"]), row, column, float(one)) for column, one in enumerate(values) if _is_rate(one)
            ]
    return cells


def _is_rate(value: Any) -> bool:
    """Whether a cell holds a figure: N/A and 0 stand for a GPU with itself, and for one that it cannot reach."""
    try:
        return float(value) > 0.0
    except ValueError:
        return False


def _of_text(text: str) -> list[Cell]:
    cells: list[Cell] = []
    name, ended = "", True
    for line in text.splitlines():
        if line.startswith("Running "):
            name, ended = line[len("Running ") :].strip().rstrip("."), False
        elif line.startswith("SUM "):
            ended = True
        row = MATRIX_ROW.match(line)
        if row and name and "." in row.group(2):
            values = row.group(2).split()
            cells += [
                (name, int(row.group(1)), column, float(one)) for column, one in enumerate(values) if _is_rate(one)
            ]
    if not ended:
        raise ValueError(f"nvbandwidth output was cut short: {_end(text)}")
    return cells


def rvs(text: str) -> Findings:
    """The findings of `rvs -c`: each line that says whether a target was met, or a test passed."""
    found: Findings = []
    for action, message in RVS_LINE.findall(text):
        verdict = RVS_VERDICT.search(message)
        if verdict:
            gpu = RVS_GPU.search(message)
            which = next(filter(None, gpu.groups()), "") if gpu else ""
            is_good = verdict.group(1).upper() == "TRUE"
            found.append([action, which, "pass" if is_good else "fail", " ".join(message.split())[:MOST_WORDS]])
    if not found:
        raise ValueError(f"rvs reported no test: {_end(text)}")
    return found


def agfhc(text: str) -> Findings:
    """The findings of `agfhc -r`: each test of the recipe on all GPUs, as many as its summary says were executed."""
    end = AGFHC_END.search(text)
    if not end:
        raise ValueError(f"agfhc output was cut short: {_end(text)}")
    found: Findings = []
    for word, name, reason in AGFHC_LINE.findall(text):
        status = STATUS.get(word.lower(), "fail")
        found.append([name, "", status, "" if status == "pass" else " ".join(reason.split())[:MOST_WORDS]])
    summary = AGFHC_SUMMARY.search(text)
    executed = sum(status != "skip" for _, _, status, _ in found)
    if summary and int(summary.group(1)) != executed:
        raise ValueError(f"agfhc reported {executed} of {summary.group(1)} tests: {_end(text)}")
    if end.group(2) != "0" and not any(status == "fail" for _, _, status, _ in found):
        raise ValueError(f"agfhc says {end.group(1)}: {_end(text[: end.start()])}")
    if not executed or not summary:
        raise ValueError(f"agfhc ran no test: {_end(text)}")
    return found


def document(text: str) -> Any:
    """The JSON in what a program printed: warnings may stand before it."""
    start = text.find("{")
    if start < 0:
        raise ValueError(f"no JSON: {_end(text)}")
    try:
        return printed_json.value_at(text, start)[0]
    except ValueError as error:
        raise ValueError(f"broken JSON ({error}): {_end(text)}") from None


def _end(text: str) -> str:
    return " ".join(text[-MOST_WORDS:].split()) or "nothing"
