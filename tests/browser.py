"""How does a test look at a page in a real browser, Debian's chromium, with the standard library alone?"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TOOLS = {"chromium": "chromium", "chromedriver": "chromium-driver"}
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions",
    "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
)  # fmt: skip
TIMEOUT_SECONDS = 60.0


def why_not() -> str:
    """Why there is no browser here; empty where there is one."""
    missing = sorted(package for tool, package in TOOLS.items() if not shutil.which(tool))
    return f"the browser tests need Debian's {', '.join(missing)}" if missing else ""


class Browser:
    """One session of a headless browser."""

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}"
        options = {"args": list(FLAGS), "binary": shutil.which("chromium")}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._base += f"/session/{made['sessionId']}"

    def open(self, path: Path, *, width: int = 1280, height: int = 800) -> None:
        """Show a file in a window of that size; its log starts anew."""
        self.log()
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.devtools("Emulation.setDeviceMetricsOverride", size)
        self._call("POST", "/url", {"url": path.absolute().as_uri()})

    def media(self, *, scheme: str = "light", kind: str = "") -> None:
        """Light or dark, on screen or in print."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.devtools("Emulation.setEmulatedMedia", {"media": kind, "features": features})

    def run(self, script: str, *arguments: Any) -> Any:
        """What the body of a function returns inside the page; a promise is awaited."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def log(self) -> list[str]:
        """What the console said since the last look."""
        return [entry["message"] for entry in self._call("POST", "/se/log", {"type": "browser"})]

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """The window, or the whole page, as a PNG."""
        taken = self.devtools(
            "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole} | self._clip(whole)
        )
        path.write_bytes(base64.b64decode(taken["data"]))

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        width, height = self.run("return [innerWidth, document.documentElement.scrollHeight]")
        return {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}

    def devtools(self, command: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """A command of the DevTools protocol."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def close(self) -> None:
        """End the browser."""
        self._call("DELETE", "", None)

    def _call(self, method: str, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data=data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{method} {path}: {error.read().decode()[:2000]}") from None


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """A browser for as long as the block lasts."""
    words = ["chromedriver", "--port=0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as driver:
        try:
            assert driver.stdout is not None
            said = (re.search(r"started successfully on port (\d+)", line) for line in driver.stdout)
            port = next((int(found[1]) for found in said if found), 0)
            assert port, "chromedriver did not start"
            window = Browser(port)
            try:
                yield window
            finally:
                window.close()
        finally:
            driver.terminate()
