"""Headless Chromium over its debugging pipe: screenshots, requests and errors of a page."""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
from pathlib import Path
from typing import Any

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-extensions"]
SECONDS_TO_ANSWER = 120


class Browser:
    """One tab. Messages are JSON, each ended by a zero byte; Chromium reads descriptor 3 and writes descriptor 4."""

    def __init__(self, program: str, profile: Path) -> None:
        theirs_in, self.to = os.pipe()
        self.back, theirs_out = os.pipe()

        def place_pipes() -> None:
            # Copies above the two numbers first, so that neither is overwritten before it is used.
            reading, writing = os.dup2(theirs_in, 100), os.dup2(theirs_out, 101)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self.process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=place_pipes,
            close_fds=False,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.unread, self.number, self.session = b"", 0, None
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def close(self) -> None:
        self.session = None
        self.ask("Browser.close")
        os.close(self.to)
        os.close(self.back)
        self.process.wait(timeout=30)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.unread:
            assert select.select([self.back], [], [], SECONDS_TO_ANSWER)[0], "Chromium does not answer"
            got = os.read(self.back, 1 << 20)
            assert got, "Chromium closed the pipe"
            self.unread += got
        message, self.unread = self.unread.split(b"\0", 1)
        return json.loads(message)

    def open(self, page: Path, width: int = 1280, dark: bool = False, media: str = "") -> None:
        """Load a page afresh, and forget what earlier ones did."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", media=media, features=features)
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.events.clear()
        self.ask("Page.navigate", url=page.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def evaluate(self, expression: str) -> Any:
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self, file: Path) -> Path:
        """The whole page, not only what the window shows."""
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))
        return file

    def print(self, file: Path) -> Path:
        file.write_bytes(base64.b64decode(self.ask("Page.printToPDF", printBackground=False)["data"]))
        return file

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, and exceptions."""
        methods = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self.events if event["method"] in methods]

    def requests(self) -> list[str]:
        asked = (event for event in self.events if event["method"] == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in asked]
