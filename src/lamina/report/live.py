"""`lamina report --live`: the page of some runs, drawn anew while they train, for a browser on the same machine.

The server listens on the loopback address alone and serves one page, at `/`; no path of a request names a file. A
request whose `Host` is another name is refused, so that no page of the internet can read this one through a name that
it lets point to 127.0.0.1 (DNS rebinding).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

from markupsafe import escape

from lamina.errors import UserError
from lamina.report.comparison_report import ComparisonReport

ADDRESS = "127.0.0.1"
SECONDS = 5
"""The time between two updates of the page."""
WAITING = "<!doctype html><meta charset=utf-8><title>Waiting</title><p>Nothing to show yet: {reason}"


class LivePage:
    """The page of some runs, drawn at most every few seconds, however many browsers ask for it."""

    def __init__(self, paths: Sequence[str | Path], title: str = "") -> None:
        self._paths, self._title = list(paths), title
        self._lock = Lock()  # matplotlib draws one picture at a time
        self._drawn, self._text, self._goes_on = float("-inf"), "", True

    def read(self) -> tuple[str, bool]:
        """The page, and whether any of the runs is still being trained."""
        with self._lock:
            if time.monotonic() - self._drawn > SECONDS / 2:
                self._text, self._goes_on = self._draw()
                self._drawn = time.monotonic()
            return self._text, self._goes_on

    def _draw(self) -> tuple[str, bool]:
        try:
            report = ComparisonReport.read(self._paths)
            goes_on = any(each.state == "running" for each in report.summaries)
            return report.page(self._title), goes_on
        except UserError as error:  # such as a run without any metrics yet
            return WAITING.format(reason=escape(str(error))), True


class LiveServer(ThreadingHTTPServer):
    """The server of one page, at a free port of this machine."""

    daemon_threads = True

    def __init__(self, page: LivePage) -> None:
        super().__init__((ADDRESS, 0), _Handler)
        self.page = page
        self.hosts = {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    server_version, sys_version = "lamina", ""
    timeout = 30  # seconds for a slow client

    def do_GET(self) -> None:
        if self.headers.get("Host") not in self.server.hosts:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
        elif self.path != "/":
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            self._send(*self.server.page.read())

    do_HEAD = do_GET  # noqa: N815

    def _send(self, text: str, goes_on: bool) -> None:
        content = text.encode("utf-8", errors="replace")
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        if goes_on:
            self.send_header("Refresh", str(SECONDS))  # the browser loads the page again, without any script
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing for a request."""
