"""`view --web` in a real browser: the page, its keys and its pictures; and who is not let in."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, Request, WebSocket, sync_playwright

from tests.command_line import ROOT, STEPSCOPE, stepscope
from tests.inspector.tui.small_traces import letters
from tests.programs import need

QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")


@contextmanager
def served(*words: str) -> Iterator[str]:
    """The address that `stepscope view WORDS --web` prints."""
    command = [*STEPSCOPE, "view", *words, "--web"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None
            yield found[0]
        finally:
            server.send_signal(signal.SIGINT)
            assert server.communicate(timeout=20)[1] == ""
            assert server.returncode == 0


@contextmanager
def browser_page() -> Iterator[Page]:
    """A page of headless Chromium that nothing but this machine answers to."""
    need("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=QUIET)
        page = browser.new_page(viewport={"width": 1000, "height": 700})
        yield page
        browser.close()


class Received:
    """What the server sends the page's terminal."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.text = ""
        page.on("websocket", self._listen)

    def _listen(self, socket: WebSocket) -> None:
        socket.on("framereceived", self._take)

    def _take(self, payload: str | bytes) -> None:
        self.text += payload.decode("utf-8", "replace") if isinstance(payload, bytes) else payload

    def until(self, words: str, seconds: float = 30.0) -> None:
        """Wait until it drew some words."""
        deadline = time.monotonic() + seconds
        while words not in ESCAPES.sub("", self.text):
            assert time.monotonic() < deadline, f"never drawn: {words!r} in {ESCAPES.sub('', self.text)[-2000:]}"
            self._page.wait_for_timeout(50)


def test_the_view_in_a_browser_draws_and_takes_keys(tmp_path: Path) -> None:
    with served(str(letters(tmp_path / "a.steps", broken=(3,)))) as address, browser_page() as page:
        asked: list[Request] = []
        page.on("request", lambda request: asked.append(request))
        received = Received(page)
        page.goto(address)
        received.until("REPLAY")
        received.until("✗ 2 failures")
        page.wait_for_selector("body.-first-byte")
        page.click("#terminal")
        page.wait_for_timeout(500)
        before = page.screenshot()
        received.text = ""
        page.keyboard.press("n")
        received.until("layers of step 3")
        page.wait_for_timeout(300)
        assert page.screenshot() != before
        elsewhere = [request for request in asked if not request.url.startswith((address.split("/?")[0], "data:"))]
        assert all(request.failure == "csp" for request in elsewhere)  # refused before it was sent
        page.keyboard.press("q")
        page.wait_for_selector("body.-closed")
        page.goto(address)  # another view, which the server's end ends
        received.text = ""
        received.until("REPLAY")


def test_nobody_without_the_token_is_let_in(tmp_path: Path) -> None:
    with served(str(letters(tmp_path / "a.steps"))) as address:
        home = address.split("/?")[0]
        assert home.startswith("http://127.0.0.1:")
        for wrong in ("/", "/?token=", "/?token=" + "x" * 22, "/ws?width=80&height=24"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(home + wrong, timeout=20)
            assert refused.value.code == 403
        with urllib.request.urlopen(address, timeout=20) as page:
            assert page.status == 200
            assert "default-src 'self'" in page.headers["Content-Security-Policy"]


def complaint(*words: str) -> str:
    """What `stepscope view WORDS` says before it ends with 2."""
    done = stepscope("view", *words, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    return done.stderr


def test_what_cannot_be_served_is_said_at_once_in_one_line(tmp_path: Path) -> None:
    path = str(letters(tmp_path / "a.steps"))
    assert "No such file" in complaint(str(tmp_path / "none.steps"), "--web")
    assert "no theme is called 'plaid'" in complaint(path, "--web", "--theme", "plaid")
    assert "cannot serve on 192.0.2.1" in complaint(path, "--web", "--host", "192.0.2.1")
    assert "cannot serve on 127.0.0.1 port 99999" in complaint(path, "--web", "--port", "99999")
    assert "--host and --port are for --web" in complaint(path, "--port", "8000")
    assert all(len(complaint(path, "--web", "--port", str(port)).splitlines()) == 1 for port in (-1, 99999))


def test_another_host_than_this_machine_alone_is_warned_of(tmp_path: Path) -> None:
    command = [*STEPSCOPE, "view", str(letters(tmp_path / "a.steps")), "--web"]
    with subprocess.Popen([*command, "--host", "0.0.0.0"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as server:  # fmt: skip
        assert server.stdout is not None and server.stderr is not None
        assert "whoever reaches this machine" in server.stderr.readline()
        assert "/?token=" in server.stdout.readline()
        server.terminate()
