"""The view in a browser: textual-serve runs the same program for each page that is opened, one process a page.

An address without the token that is printed at the start gets nothing, neither the page nor the connection that the
page makes: other pages in the same browser, and other users of this machine, do not know it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import shlex
import socket
import sys
from collections.abc import Sequence
from typing import Any

from aiohttp import web
from textual_serve.server import Server

from inspector.cli import UsageError

LOOPBACK = "127.0.0.1"
_PATIENCE_S, _LAST_MOMENT_S = 5.0, 0.2
"""For views to end, and for their processes to be gone once they said so"""
_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; script-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self' ws: wss:"
)
"""Nothing from elsewhere: the page's own style sheet would ask a public server for a font"""


def serve(words: Sequence[str], title: str, host: str, port: int) -> int:
    """Serve `stepscope view WORDS` until Ctrl-C; 0.

    port: 0 takes a free one. Raises UsageError where the host is not this machine's or the port is taken.
    """
    port = _free_port(host, port)
    command = shlex.join([sys.executable, "-m", "inspector.cli", "view", *words])
    if not _is_loopback(host):
        print(
            f"stepscope: --host {host}: whoever reaches this machine and has the address can look at the trace and "
            "save files in this folder; nothing is encrypted",
            file=sys.stderr,
        )
    _Guarded(command, host, port, title=title).serve()
    return 0


def _free_port(host: str, port: int) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((host, port))
            return int(trial.getsockname()[1])
    except (OSError, OverflowError) as error:
        said = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot serve on {host} port {port}: {said}; choose others with --host and --port") from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _answers(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True


class _Guarded(Server):
    """textual-serve's server that answers to its token only."""

    def __init__(self, command: str, host: str, port: int, title: str) -> None:
        super().__init__(command, host=host, port=port, title=title)
        self._token = secrets.token_urlsafe(16)
        self._sessions: set[asyncio.Task[Any]] = set()
        self._cookie = f"stepscope-{port}"

    def initialize_logging(self) -> None:
        """The server's own messages are of no use to who looks at a trace."""

    async def on_startup(self, app: web.Application) -> None:
        """Say where it is, once it answers there."""
        self._saying = asyncio.create_task(self._say_where())

    async def _say_where(self) -> None:
        while not await _answers(self.host, self.port):
            await asyncio.sleep(0.02)
        host = socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host
        name = f"[{host}]" if ":" in host else host
        print(f"stepscope: http://{name}:{self.port}/?token={self._token}   (Ctrl-C ends it)", flush=True)

    async def handle_index(self, request: web.Request) -> web.StreamResponse:
        """The page; with it the cookie that its connection shows."""
        self._check(request.query.get("token"))
        self.public_url = f"{request.scheme}://{request.host}"  # the page connects to where it was asked for
        response = await super().handle_index(request)
        assert isinstance(response, web.Response)
        response.set_cookie(self._cookie, self._token, httponly=True, samesite="Strict")
        response.headers["Content-Security-Policy"] = _POLICY
        return response

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """The page's connection: it starts a view and carries its keys and pictures."""
        self._check(request.cookies.get(self._cookie))
        session = asyncio.current_task()
        assert session is not None
        self._sessions.add(session)
        try:
            return await super().handle_websocket(request)
        finally:
            self._sessions.discard(session)

    async def on_shutdown(self, app: web.Application) -> None:
        """End the views that are open before the loop that reads them ends."""
        sessions = list(self._sessions)
        for session in sessions:
            session.cancel()
        if sessions:
            await asyncio.wait(sessions, timeout=_PATIENCE_S)
            await asyncio.sleep(_LAST_MOMENT_S)

    def _check(self, token: str | None) -> None:
        if not secrets.compare_digest((token or "").encode(), self._token.encode()):
            raise web.HTTPForbidden(text="stepscope: open the address that it printed, with its token\n")
