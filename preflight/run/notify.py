"""How is the verdict of a run sent to a webhook, and what if that fails?"""

from __future__ import annotations

import json
import threading
from urllib.parse import urlsplit

from preflight.report.document import RunReport
from preflight.report.formats.notice import notice
from preflight.report.printable import printable
from preflight.said import said

SECONDS = 5.0  # for all of it: a name that does not resolve, a server that answers by letters
ANSWER_BYTES = 4096
CODE_LETTERS = 12


def notify(url: str, report: RunReport, *, seconds: float = SECONDS) -> str:
    """Send the verdict; "" where the webhook took it, else one line that says why not. Never longer than `seconds`."""
    host = urlsplit(url).hostname or ""
    answers: list[str] = []
    body = json.dumps(notice(report, host), ensure_ascii=True).encode("ascii")
    sending = threading.Thread(target=lambda: answers.append(_post(url, body)), name="notify", daemon=True)
    sending.start()
    sending.join(seconds)
    why = answers[0] if answers else said("no answer within {seconds:g} s", seconds)
    return said("warning: --notify: {host} was not told: {why}", printable(host), printable(why)) if why else ""


def _post(url: str, body: bytes) -> str:
    """Why the webhook did not take it. The address is a secret: nothing of it but the host is ever said."""
    import http.client  # 40 ms to import, for those who ask for it
    import urllib.error
    import urllib.request

    class Staying(urllib.request.HTTPRedirectHandler):
        """Refuses redirections: they lead to another address than the one that was named."""

        def redirect_request(self, *_: object, **__: object) -> None:
            return None

    request = urllib.request.Request(  # noqa: S310 -- http or https, by `checked`
        url, data=body, method="POST", headers={"Content-Type": "application/json; charset=utf-8"}
    )
    try:
        with urllib.request.build_opener(Staying).open(request, timeout=SECONDS) as answer:
            return _refusal(answer.read(ANSWER_BYTES))
    except urllib.error.HTTPError as error:
        return said("it answered {code}", error.code)
    except urllib.error.URLError as error:
        return getattr(error.reason, "strerror", None) or type(error.reason).__name__
    except (OSError, http.client.HTTPException, ValueError) as error:
        return type(error).__name__


def _refusal(answer: bytes) -> str:
    """Feishu answers 200 to what it refuses, with a code that is not 0."""
    try:
        reply = json.loads(answer)
    except (ValueError, RecursionError):
        return ""
    code = reply.get("code", 0) if isinstance(reply, dict) else 0
    return said("it answered code {code}", str(code)[:CODE_LETTERS]) if isinstance(code, int) and code != 0 else ""
