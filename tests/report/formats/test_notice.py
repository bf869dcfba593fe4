"""What does a webhook hear, by whose it is?"""

import pytest

from preflight.judge.ledger.findings import Finding, Verdict
from preflight.report.formats.notice import CAUSES, LETTERS, notice, notice_text


@pytest.mark.parametrize(
    ("host", "keys"),
    [
        ("hooks.slack.com", {"text"}),
        ("open.feishu.cn", {"msg_type", "content"}),
        ("open.larksuite.com", {"msg_type", "content"}),
        ("hooks.slack.com.example.org", {"text", "msg_type", "content", "preflight"}),
        ("chat.example.org", {"text", "msg_type", "content", "preflight"}),
    ],
)
def test_each_service_gets_its_own_form(make_report, host, keys):
    """Slack and Feishu their own; what is not known gets both, and the verdict as data."""
    assert set(notice(make_report(), host)) == keys


def test_a_notice_is_short(make_report):
    """Five causes, each on a line of its own; long messages are cut."""
    many = [Finding(f"site.check{n}", Verdict.FAIL, ("node1",), f"{n}\n" * 400) for n in range(9)]
    lines = notice_text(make_report(*many)).splitlines()
    assert len(lines) == CAUSES + 2
    assert max(map(len, lines)) <= LETTERS
