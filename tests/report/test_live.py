"""The live page: served on this machine alone, one page and no file, up to date while a run trains."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from threading import Thread

import pytest

from lamina.report.live import LivePage, LiveServer

CONFIG = """
task = "translation"
[model]
num_layers = 1
model_dim = 16
feed_forward_dim = 16
num_heads = 2
[data]
max_tokens = 200
[train]
steps = 100000
log_every = 1
validate_every = 5
samples = 0
threads = 1
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    (tmp_path / "<b>run").mkdir()
    with LiveServer(LivePage([tmp_path / "<b>run"])) as found:
        thread = Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def ask(server: LiveServer, path: str = "/", method: str = "GET", host: str | None = None) -> HTTPResponse:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request(method, path, headers={} if host is None else {"Host": host})
    return connection.getresponse()


def test_it_listens_on_the_loopback_address_only(server: LiveServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{server.server_port}/"


def test_a_run_without_metrics_is_waited_for_and_names_are_escaped(server: LiveServer) -> None:
    found = ask(server)
    text = found.read().decode()
    assert found.status == 200
    assert found.headers["Refresh"] == "5"
    assert "Nothing to show yet" in text
    assert "&lt;b&gt;run" in text
    assert "<b>" not in text


@pytest.mark.parametrize("path", ["/config.toml", "/../config.toml", "//etc/passwd", "/?x", "/%2e%2e/status.json"])
def test_nothing_but_the_page_is_served(server: LiveServer, path: str) -> None:
    assert ask(server, path).status == 404


def test_other_hosts_and_methods_are_refused(server: LiveServer) -> None:
    assert ask(server, host="evil.example").status == 421
    assert ask(server, host=f"evil.example:{server.server_port}").status == 421
    assert ask(server, host=f"localhost:{server.server_port}").status == 200
    assert ask(server, method="POST").status == 501
    assert ask(server, method="HEAD").read() == b""


@pytest.fixture
def trained(tmp_path: Path) -> Iterator[tuple[Path, str, subprocess.Popen[str], subprocess.Popen[str]]]:
    """A run that is being trained by one process, and the address at which another process shows it."""
    (tmp_path / "run.toml").write_text(CONFIG)
    command = [sys.executable, "-m", "lamina"]
    training = subprocess.Popen(
        [*command, "train", "run.toml", "--folder", "run"], cwd=tmp_path, stderr=subprocess.DEVNULL, text=True
    )
    metrics = tmp_path / "run" / "metrics.jsonl"
    wait_for(lambda: metrics.is_file() and metrics.read_text().count("\n") > 3)
    showing = subprocess.Popen(
        [*command, "report", "run", "--live"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert showing.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:\d+/", showing.stdout.readline())
    assert found is not None
    try:
        yield tmp_path / "run", found[0], training, showing
    finally:
        for process in (training, showing):
            process.kill()
            process.wait()


def wait_for(condition: object, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.2)


def get(url: str) -> HTTPResponse:
    connection = HTTPConnection(url.removeprefix("http://").rstrip("/"), timeout=120)
    connection.request("GET", "/")
    return connection.getresponse()


def last_step(text: str) -> int:
    """The last step of the training loss, as the picture is described."""
    return max(int(each.replace(",", "")) for each in re.findall(r"at ([\d,]+)[.;]", text))


@pytest.mark.slow
def test_a_run_that_is_being_trained(trained: tuple[Path, str, subprocess.Popen[str], subprocess.Popen[str]]) -> None:
    run, url, training, showing = trained
    first = get(url)
    assert first.headers["Refresh"] == "5"
    before = last_step(first.read().decode())
    wait_for(lambda: last_step(get(url).read().decode()) > before)
    training.send_signal(signal.SIGTERM)
    training.wait(timeout=120)
    wait_for(lambda: get(url).headers["Refresh"] is None)
    showing.send_signal(signal.SIGINT)
    output, errors = showing.communicate(timeout=60)
    assert showing.returncode == 0
    assert "Ended." in output
    assert "Traceback" not in errors
