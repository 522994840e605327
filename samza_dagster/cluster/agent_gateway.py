"""The HTTP server that agents call: one POST, behind the job's token, and plain GET pages."""

from __future__ import annotations

import errno
import hmac
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from samza_dagster.cluster.interface import JSON
from samza_dagster.errors import MissingPrerequisite

SYNC_PATH = "/agent/v1/sync"
MAX_BODY = 16 * 1024 * 1024

Answer = tuple[int, Mapping[str, Any]]


def listening(address: tuple[str, int], within_s: float = 0.0) -> socket.socket:
    """Return a listening socket; a client that connects waits until the gateway starts.

    An address that is taken is tried again for `within_s` seconds. Raises `MissingPrerequisite`
    for one that stays taken, is none of this machine's, or may not be used.
    """
    deadline = time.monotonic() + within_s
    host, port = address
    while True:
        try:
            return socket.create_server(address, backlog=128)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            raise MissingPrerequisite(
                f"listen at {host}:{port}",
                seen=str(error),
                fix="an address of this machine and a free port: --listen 127.0.0.1:0",
            ) from error


class AgentGateway:
    """Listens for agents; `on_sync` answers a body, and may hold it for a while.

    Pages registered with `add_page` are served to anybody on the address listened on, so
    they must tell nothing secret.
    """

    def __init__(
        self, listen: socket.socket, *, token: str, on_sync: Callable[[bytes], Answer]
    ) -> None:
        self._server = _Server(listen, token.encode("utf-8"), on_sync)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="agent-gateway"
        )
        self._thread.daemon = True

    @property
    def url(self) -> str:
        """The address that agents call."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def add_page(self, path: str, content_type: str, page: Callable[[], bytes]) -> None:
        """Serve `GET path` with the bytes that `page` returns at that time."""
        self._server.pages[path] = (content_type, page)

    def start(self) -> None:
        """Start to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening; kept connections get 503 from now on."""
        self._server.closed = True
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(
        self, listen: socket.socket, token: bytes, on_sync: Callable[[bytes], Answer]
    ) -> None:
        # Without the look-up of our own name that http.server makes, which can take seconds.
        super().__init__(listen.getsockname()[:2], _AgentHandler, bind_and_activate=False)
        self.socket.close()
        self.socket = listen
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.token = token
        self.on_sync = on_sync
        self.pages: dict[str, tuple[str, Callable[[], bytes]]] = {}
        self.closed = False


class _AgentHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 60
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        if self.server.closed:
            self._refuse(503, "this coordinator has ended")
        elif urlsplit(self.path).path != SYNC_PATH:
            self._refuse(404, "no such page")
        elif not self._may_enter():
            self._refuse(401, "the job's token is needed")
        else:
            body = self._body()
            if body is not None:
                status, value = self.server.on_sync(body)
                self._answer(status, value)

    def do_GET(self) -> None:
        page = self.server.pages.get(urlsplit(self.path).path)
        if self.server.closed:
            self._refuse(503, "this coordinator has ended")
        elif page is None:
            self._refuse(404, "no such page")
        else:
            content_type, content = page
            self._send(200, content_type, content())

    def _may_enter(self) -> bool:
        given = self.headers.get("Authorization", "")
        return hmac.compare_digest(given.encode("utf-8"), b"Bearer " + self.server.token)

    def _body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit():
            self._refuse(411, "a Content-Length is needed")
            return None
        if int(length) > MAX_BODY:
            self._refuse(413, f"at most {MAX_BODY} bytes")
            return None
        return self.rfile.read(int(length))

    def _refuse(self, status: int, why: str) -> None:
        self.close_connection = True  # its body wasn't read
        self._answer(status, {"error": why})

    def _answer(self, status: int, value: Mapping[str, Any]) -> None:
        self._send(status, JSON, json.dumps(value).encode("utf-8"))

    def _send(self, status: int, content_type: str, body: bytes) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing: agents call all the time."""
