"""The loopback server that answers a Samza container in place of its coordinator.

`SAMZA_COORDINATOR_URL` is `http://127.0.0.1:<port>/c/<execution id>/`. Samza's reader gives up after 60 s
without a byte, so a request for a JobModel that isn't released yet is answered 200 at once. A newline
follows from time to time (white space before a JSON value), then the JSON.
"""

from __future__ import annotations

import json
import random
import socketserver
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Dict, Optional, Tuple
from urllib.parse import parse_qs, urlsplit

from samza_dagster.agent.gate import Gate
from samza_dagster.agent.incarnation import HostedIncarnation

HOLD_NEWLINE_S = 10.0
# Below the range from which kernels pick the ports of outgoing connections, so that the
# port is still free when the agent comes back.
_PORTS = range(17_000, 32_000)


class ContainerServer(ThreadingHTTPServer):
    """Serves the containers of one host."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, port: int, gate: Optional[Gate] = None) -> None:
        super().__init__(("127.0.0.1", port), _ContainerHandler)
        self.gate = gate

    def server_bind(self) -> None:
        """Bind without http.server's look-up of this host's name, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]


def bind(kept_port: Optional[int], *, patience_s: float = 5.0) -> ContainerServer:
    """Bind the kept port, with patience for its release, else a new one."""
    deadline = time.monotonic() + patience_s
    while kept_port is not None:
        try:
            return ContainerServer(kept_port)
        except OSError:
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
    for port in random.SystemRandom().sample(_PORTS, 50):
        try:
            return ContainerServer(port)
        except OSError:
            continue
    return ContainerServer(0)


class _ContainerHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    server: ContainerServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        gate = self.server.gate
        assert gate is not None  # set before the server is started
        url = urlsplit(self.path)
        parts = url.path.split("/")
        if len(parts) < 4 or parts[1] != "c" or len(self.path) > 2000:
            self._answer(404, {"error": "no such page"})
            return
        execution_id, page = parts[2], "/".join(parts[3:])
        query = parse_qs(url.query)
        if page == "":
            self._job_model(gate, execution_id)
        elif page == "containerHeartbeat":
            asked = query.get("executionContainerId", [execution_id])[0]
            alive = asked == execution_id and gate.heartbeat(execution_id)
            self._answer(200, {"alive": alive})
        elif page == "locality":
            self._locality(gate, query.get("processorId", [None])[0])
        else:
            self._answer(404, {"error": "no such page"})

    def _job_model(self, gate: Gate, execution_id: str) -> None:
        found = gate.find(execution_id)
        if found is None or not found.is_live:
            self._answer(404, {"error": "no live incarnation {}".format(execution_id)})
            return
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            while True:
                model, ended = self._wait(gate, found)
                if model is not None:
                    self._chunk(model.encode("utf-8"))
                    self._chunk(b"")
                if model is not None or ended:  # ended: the body breaks off, which no reader takes
                    return
                self._chunk(b"\n")
        except OSError:
            return  # the container went away

    def _wait(self, gate: Gate, found: HostedIncarnation) -> Tuple[Optional[str], bool]:
        with gate.changed:
            deadline = time.monotonic() + HOLD_NEWLINE_S
            while True:
                if not found.is_live or found.stop_asked:
                    return None, True
                if gate.waits_for(found) is None:
                    return gate.release_job_model(found), False
                left = deadline - time.monotonic()
                if left <= 0:
                    return None, False
                gate.changed.wait(left)

    def _chunk(self, data: bytes) -> None:
        self.wfile.write("{:x}\r\n".format(len(data)).encode("ascii") + data + b"\r\n")
        self.wfile.flush()

    def _locality(self, gate: Gate, processor_id: Optional[str]) -> None:
        hosts = gate.processor_hosts()
        if processor_id is not None:
            self._answer(200, _locality(processor_id, hosts.get(processor_id, "")))
        else:
            every = {p: _locality(p, host) for p, host in sorted(hosts.items())}
            self._answer(200, {"processor-localities": every})

    def _answer(self, status: int, value: Dict[str, Any]) -> None:
        body = json.dumps(value).encode("utf-8")
        self.close_connection = True
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            return

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as http.server has it
        """Log nothing: each container's heartbeats would fill the log."""


def _locality(processor_id: str, host: str) -> Dict[str, str]:
    return {"id": processor_id, "host": host, "jmx-url": "", "jmx-tunneling-url": ""}
