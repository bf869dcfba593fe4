"""Does a webhook hear of the verdict, and does a run stand whatever the webhook does?"""

import json
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from preflight.judge.ledger.findings import Finding, Verdict
from preflight.report.json import read_json
from preflight.run.notify import notify
from preflight.testing import healthy
from tests.run.test_stored import written

ANSWERS = {
    "/ok": (200, b"ok"),
    "/feishu": (200, b'{"code":0,"msg":"success","data":{}}'),
    "/feishu-refuses": (200, b'{"code":19001,"msg":"param invalid: incoming webhook access token invalid"}'),
    "/broken": (500, b"T0KEN in a stack trace"),
    "/moved": (302, b""),
    "/junk": (200, b"\x00\xff" * 5000),
    "/deep": (200, b"[" * 4096),
    "/long": (200, b'{"code":' + b"7" * 4000 + b"}"),
}


class Hook(BaseHTTPRequestHandler):
    """Keeps what it is told, and answers as its path says."""

    def do_POST(self):
        """Take in a body."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.told.append((self.path, self.headers["Content-Type"], body))
        if self.path.startswith("/silent"):
            self.server.end.wait(20)
        code, answer = ANSWERS.get(self.path.partition("?")[0], (404, b""))
        self.send_response(code)
        self.send_header("Location", "/ok")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def hook():
    """A webhook on this machine; `told` is what it was sent, `url` where it is."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.told, server.end = [], threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.end.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def make_report(tmp_path):
    """The report of a run with these findings."""
    (tmp_path / "stored").mkdir()
    written(healthy(), tmp_path / "stored")
    report = read_json(tmp_path / "stored" / "report.json")

    def make(*findings):
        verdict = Verdict.FAIL if findings else Verdict.PASS
        return msgspec.structs.replace(report, findings=findings, verdict=verdict, exit_code=int(bool(findings)))

    return make


def failed(message="mtu: 9000 on node[1-2], 1500 on node3"):
    """A finding."""
    return Finding("network.mtu_is_the_same_on_every_node", Verdict.FAIL, ("node3",), message, "mend it")


def test_verdict_cause_and_run_are_told(hook, make_report):
    """As Slack and as Feishu read it, and as a program does; control characters and mentions are none."""
    report = make_report(failed("\x1b[31m<!channel> hf_abcdefghijklmnop1234 & more"))
    assert notify(f"{hook.url}/ok", report) == ""
    ((_, kind, body),) = hook.told
    told = json.loads(body)
    assert kind == "application/json; charset=utf-8"
    assert told["text"].splitlines()[0].startswith("preflight: NO-GO 3 nodes")
    assert (
        "network.mtu_is_the_same_on_every_node on node3: \\x1b[31m&lt;!channel&gt; [hidden] &amp; more" in told["text"]
    )
    assert told["msg_type"] == "text"
    assert told["content"]["text"].endswith("run x, exit code 1")
    assert "<" not in told["content"]["text"]
    assert told["preflight"]["causes"] == [
        {"check": "network.mtu_is_the_same_on_every_node", "verdict": "fail", "nodes": ["node3"]}
    ]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/feishu", ""),
        ("/junk", ""),
        ("/deep", ""),
        ("/long", "it answered code 777777777777"),
        ("/feishu-refuses", "it answered code 19001"),
        ("/broken", "it answered 500"),
        ("/moved", "it answered 302"),
        ("/silent", "no answer within 0.5 s"),
    ],
)
def test_what_the_webhook_did_not_take_is_one_line(hook, make_report, path, why):
    """With the host, the reason and nothing of the address or of the answer."""
    line = notify(f"{hook.url}{path}?key=S3CRET", make_report(failed()), seconds=0.5 if why.startswith("no") else 5.0)
    assert line == (f"warning: --notify: 127.0.0.1 was not told: {why}" if why else "")


def test_nobody_there_is_one_line_too(make_report):
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/T0KEN"
        assert notify(url, make_report()) == "warning: --notify: 127.0.0.1 was not told: Connection refused"


def test_a_run_tells_it_and_ends_as_it_would(hook, tmp_path):
    """Exit code and report are those of the run; the address stands nowhere in them."""
    words = [sys.executable, "-m", "preflight", "run", "--hosts=local", "--profile=quick", "--report-dir", "report"]
    for path, warning in (("/ok", ""), ("/broken", "warning: --notify: 127.0.0.1 was not told: it answered 500")):
        address = f"{hook.url}{path}?key=S3CRET"
        done = subprocess.run(
            [*words, f"--notify={address}", "--", "-k", "reach"],
            check=False,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert [line for line in done.stdout.splitlines() if "notify" in line] == [warning] * bool(warning)
        assert "S3CRET" not in done.stdout + done.stderr
        for file in (tmp_path / "report").iterdir():
            assert file.is_dir() or "S3CRET" not in file.read_text(errors="replace")
    assert [json.loads(body)["preflight"]["verdict"] for _, _, body in hook.told] == ["pass", "pass"]
