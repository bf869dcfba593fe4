"""Which pages of the site are built from the code? `mkdocs build -f .ci/mkdocs.yml` asks here; none of them is committed.

checks.md and reference/ are what `preflight explain` and `--help` say, in zh/ as they say it in Chinese. Under each
symptom troubleshooting.md lists what `preflight explain` finds for it, and architecture.md lists the layers inside the
larger rooms as tests/house.py keeps them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from preflight.cli.explain import Entry, check_texts, entries, search
from preflight.job.options.options import OPTIONS
from preflight.report.language import ENGLISH, Language
from tests.house import INSIDE, PACKAGE, ROOT

DOCS = ROOT / "docs"
CHECKS_FOLDER = ROOT / "checks"
CHECKS_PAGE = "checks.md"
LAYERS = "<!-- layers -->\n"
SYMPTOM = re.compile(r"<!-- symptom: (?P<words>.*?) -->\n")
SHOWN = 6  # of each symptom
CHINESE = Language("zh")
CAUSE, RULE, VARIABLE = "found in logs by preflight diagnose", "a rule about launch files", "a variable of the job"
CHECK = "where it does not hold"
HEAD = {
    "en": """# Checks

What every check asks, why a job breaks where the answer is no, and how to fix it. On a terminal: `preflight explain`
lists the checks, `preflight explain mtu` shows those with "mtu" in their name. *fail* or *warn* is the verdict where a
check does not hold; what could not be measured is always *error*, never a pass.

The text is that of the docstrings in [checks/](../checks).
""",
    "zh": """# 检查

每项检查问什么，答案为否时任务为什么会出问题，以及如何修复。在终端上：`preflight explain --lang zh` 列出各项检查，
`preflight explain mtu --lang zh` 显示名字中含 "mtu" 的检查。检查不成立时的判定为 *fail* 或 *warn*；没有测到的一律是 *error*，
永远不算通过。
""",
}
PAGES = {
    "rules": (
        RULE,
        "# Rules about launch files\n\nWhat `preflight launch check` holds against the files, each with its file and line;"
        " `preflight explain launch.NAME` says the same.",
        "# 启动文件的规则\n\n`preflight launch check` 检查启动文件的规则，每条结果都带文件和行号；"
        "`preflight explain launch.NAME --lang zh` 给出同样的说明。",
    ),
    "errors": (
        CAUSE,
        "# Errors in logs\n\nWhat `preflight diagnose` knows a job's log by, what each error means, what mends it, and which"
        " [check](../checks.md) tests for it before the start.",
        "# 日志中的错误\n\n`preflight diagnose` 在任务日志中识别的错误：含义、修复办法，以及启动前由哪项[检查](checks.md)发现它。",
    ),
    "variables": (
        VARIABLE,
        "# Variables\n\nThe variables of NCCL, torch and Gloo that a library reads, and the values that it takes. A name that is"
        " not here, or that the installed version does not read, is a finding.",
        "# 变量\n\nNCCL、torch 和 Gloo 的库会读取的变量及其可取的值。不在此列的名字，或所装版本不读取的名字，会被指出。",
    ),
}


def checks_page(language: Language = ENGLISH) -> str:
    """The whole page as Markdown: what each file asks, then a section for each, a heading for each check."""
    texts = {name: (verdict, text) for name, verdict, text in check_texts(CHECKS_FOLDER)}
    asked = {
        path.stem.removeprefix("test_"): ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        for path in sorted(CHECKS_FOLDER.glob("test_*.py"))
    }
    said = language.say
    rows = "".join(f"| [{subject}](#{subject}) | {said(question)} |\n" for subject, question in asked.items())
    heads = "| 对象 | 问题 |" if language is CHINESE else "| subject | what it asks |"
    sections = [HEAD[language.name], f"{heads}\n|---|---|\n{rows}"]
    for subject, question in asked.items():
        sections.append(f"## {subject}\n\n{said(question)}\n")
        for name, (verdict, text) in texts.items():
            if name.startswith(f"{subject}."):
                sections.append(f"### {name}\n\n*{verdict}* · {markdown(language.document(text), said('Fix'))}\n")
    return "\n".join(sections)


def markdown(text: str, fix: str = "Fix") -> str:
    """A docstring as Markdown: the fix a paragraph of its own, the asterisks of paths not taken for emphasis."""
    code = re.compile(r"(`[^`]*`)")
    parts = [part if part.startswith("`") else part.replace("/*/", r"/\*/") for part in code.split(text)]
    return re.sub(rf"\n+{fix}:", f"\n\n**{fix}:**", "".join(parts))


def entries_page(name: str, language: Language = ENGLISH) -> str:
    """What can be explained of one kind, a heading each."""
    kind, *heads = PAGES[name]
    parts = [f"{heads[language is CHINESE]}\n"]
    for entry in sorted((entry for entry in entries() if entry.kind == kind), key=lambda held: held.name):
        lines = [plain(line) for line in language.document(entry.text).split("\n") if line.strip()]
        parts.append(f"### {entry.name}\n\n" + "\n\n".join(lines) + "\n")
    return "\n".join(parts)


def plain(line: str) -> str:
    """A line of text as Markdown: nothing outside of code is markup."""
    pieces = re.split(r"(`[^`]*`)", line)
    return "".join(piece if piece.startswith("`") else re.sub(r"([*<>_\[\]])", r"\\\1", piece) for piece in pieces)


def options_page(language: Language = ENGLISH) -> str:
    """Every option under its heading, with its default and the verbs that take it."""
    say = language.say
    if language is CHINESE:
        lines = ["# 选项\n", "由 `--help` 的同一张表生成。pytest 中每个选项也以 `--preflight-NAME` 存在。\n"]
        head = "| 选项 | 含义 | 默认 | 命令 |\n|---|---|---|---|"
    else:
        lines = ["# Every option\n", "From the table that `--help` reads. In pytest each is also `--preflight-NAME`.\n"]
        head = "| option | what it does | default | verbs |\n|---|---|---|---|"
    for subject in dict.fromkeys(row.subject for row in OPTIONS.values()):
        lines += [f"## {say(subject)}\n", head]
        for row in OPTIONS.values():
            if row.subject == subject:
                name = row.name.removeprefix("bench-")
                shown = f"`{row.letter}`, `--{name}`" if row.letter else f"`--{name}`"
                value = row.metavar or "\\|".join(() if row.is_flag else row.choices)
                what = plain(say(row.help.replace("%(choices)s", ", ".join(row.choices)))).replace("|", "\\|")
                cells = (f"{shown} {value}".strip(), what, say(row.shown), ", ".join(sorted(row.verbs)))
                lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def facts_page() -> str:
    """Every fact of a node: a section a subject, a table for each value, with units and what the comments say."""
    parts = [
        "# Facts\n\nWhat is read on every node, as `preflight facts --json` and `facts/<node>.json` hold it. What could not be"
        " read is there with its reason. Units stand in the names. In the docstring of a check they are written"
        " `node.SUBJECT.NAME`.\n"
    ]
    subjects = PACKAGE / "facts" / "subjects"
    for path in sorted([*subjects.rglob("[a-z]*.py"), subjects.with_name("pci.py")]):
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        parts.append(f"## {path.stem}\n\n{plain(ast.get_docstring(tree) or '')}\n")
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and (rows := list(_fields(node, source.splitlines()))):
                about = (ast.get_docstring(node) or "").partition("\n\n")[0]
                parts.append(f"### {node.name}\n\n{plain(' '.join(about.split()))}\n\n| name | type | |\n|---|---|---|")
                parts += [f"| `{name}` | `{kind}` | {plain(said)} |" for name, kind, said in rows]
                parts.append("")
    return "\n".join(parts)


def _fields(node: ast.ClassDef, lines: list[str]) -> Iterator[tuple[str, str, str]]:
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            said = lines[(field.end_lineno or field.lineno) - 1].partition("  # ")[2]
            kind = ast.unparse(field.annotation).replace(" | Missing", " or why not").replace(" | ", " or ")
            yield field.target.id, kind, said.replace("|", "\\|")


def troubleshooting_page(text: str, language: Language = ENGLISH) -> str:
    """The page with what `preflight explain` finds for each symptom, the most to the point first."""
    known = [entry for entry in entries() if entry.kind == CAUSE or entry.kind.endswith(CHECK)]

    def listed(found: re.Match[str]) -> str:
        lines = "".join(f"- {line}\n" for line in _links(search(found["words"], known)[:SHOWN], language))
        return f"{lines}\n"

    return SYMPTOM.sub(listed, text)


def _links(found: Iterable[Entry], language: Language) -> Iterator[str]:
    errors = "errors.md" if language is CHINESE else "reference/errors.md"
    for entry in found:
        page = errors if entry.kind == CAUSE else "checks.md"
        yield f"[{entry.name}]({page}#{entry.name.replace('.', '')}): {plain(language.say(entry.first)).rstrip('.')}"


def architecture_page(text: str) -> str:
    """The page with the layers inside each larger room, one line a room, the lowest layer first."""
    drawn = {room: " → ".join(", ".join(row) for row in rows) for room, rows in INSIDE.items()}
    lines = "".join(f"- `{room}`: {line}\n" for room, line in drawn.items())
    return text.replace(LAYERS, lines)


def built() -> dict[str, str]:
    """Every page that stands in no file, by its path on the site."""
    pages = {
        CHECKS_PAGE: checks_page(),
        "zh/checks.md": checks_page(CHINESE),
        "reference/options.md": options_page(),
        "zh/options.md": options_page(CHINESE),
        "reference/facts.md": facts_page(),
    }
    for name in PAGES:
        pages[f"reference/{name}.md"] = entries_page(name)
        pages[f"zh/{name}.md"] = entries_page(name, CHINESE)
    return {path: f"{text.rstrip()}\n" for path, text in pages.items()}


def completed(path: str, text: str) -> str:
    """A page of docs/ with what the code adds to it."""
    if path.endswith("troubleshooting.md"):
        return troubleshooting_page(text, CHINESE if path.startswith("zh/") else ENGLISH)
    return architecture_page(text) if path == "architecture.md" else text
