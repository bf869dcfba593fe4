"""What does a chat or a program hear of a run through a webhook?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from preflight.judge.ledger.findings import Verdict
from preflight.report.causes import causes, nodes_text
from preflight.report.document import RunReport
from preflight.report.formats.text import headline
from preflight.report.printable import printable
from preflight.said import said
from preflight.said.redact import without_secrets

CAUSES = 5
LETTERS = 300  # of one line: chats cut long messages, Feishu at 20 KB


def notice(report: RunReport, host: str) -> dict[str, Any]:
    """The body for a webhook at `host`: that of Slack or Feishu, elsewhere one that either reads, and the verdict."""
    text = notice_text(report)
    for ending, body in BODIES.items():
        if host == ending or host.endswith(f".{ending}"):
            return body(text)
    verdict = {
        "schema": 1,
        "run": report.run.id,
        "started": report.run.started,
        "verdict": str(report.verdict),
        "exit_code": report.exit_code,
        "nodes": list(report.nodes),
        "causes": [
            {"check": cause.title, "verdict": str(verdict), "nodes": list(cause.nodes)}
            for verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.WARN)
            for cause in causes(report, verdict)[:CAUSES]
        ],
    }
    return {**_slack(text), **_feishu(text), "preflight": verdict}


def notice_text(report: RunReport) -> str:
    """The verdict, the first causes with their nodes, and which run it was; nothing that looks like a secret."""
    lines = [said("preflight: {headline}", headline(report))]
    for verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.WARN):
        found = [cause for cause in causes(report, verdict) if not cause.is_consequence]
        for cause in found[: CAUSES + 1 - len(lines)]:
            who = nodes_text(report, cause.nodes, most=60)
            lines.append(
                said(
                    "{upper} {title} on {who}: {message}",
                    str(verdict).upper(),
                    cause.title,
                    who,
                    cause.parts[0].message,
                )
            )
    lines.append(said("run {id}, exit code {exit_code}", report.run.id, report.exit_code))
    return "\n".join(without_secrets(_line(line)) for line in lines)


def _line(text: str) -> str:
    shown = " ".join(printable(text).split())
    return shown if len(shown) <= LETTERS else f"{shown[: LETTERS - 3]}..."


def _slack(text: str) -> dict[str, Any]:
    # Slack reads <...> as links and mentions; a node must not call the whole channel.
    for sign, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(sign, escaped)
    return {"text": text}


def _feishu(text: str) -> dict[str, Any]:
    # Feishu reads <at ...> as a mention.
    return {"msg_type": "text", "content": {"text": text.replace("<", "‹").replace(">", "›")}}  # noqa: RUF001


BODIES: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "hooks.slack.com": _slack,
    "open.feishu.cn": _feishu,
    "open.larksuite.com": _feishu,
}
