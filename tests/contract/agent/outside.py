"""A node of a cluster's engine: an agent from its one file, holds as the engine starts them, and a
coordinator that sends the commands of the test.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from samza_dagster.cluster import ContainerLaunch, agent_archive
from samza_dagster.cluster.agent_messages import launch_to_wire
from tests.contract.agent.rig import PACKAGED, TOKEN, Agent, until
from tests.rig.pace import PACE

Answer = tuple[bool, str]


class Coordinator(ThreadingHTTPServer):
    """Leads for as long as it lives; keeps the newest report."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Sync)
        self.changed = threading.Condition()
        self.report: dict[str, Any] = {}
        self.answers: dict[str, Answer] = {}
        self.open: list[dict[str, Any]] = []
        self._ids = itertools.count(1)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_: object) -> None:
        """Agents are killed while they talk."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def send(self, kind: str, **fields: Any) -> str:
        """Says it in each reply until it is acknowledged; the command's id."""
        command = {"id": f"c{next(self._ids)}", "kind": kind, **fields}
        with self.changed:
            self.open.append(command)
            self.changed.notify_all()
        return command["id"]

    def answer(self, ident: str) -> Answer:
        """What the agent acknowledged."""
        return until(f"an answer to {ident}", lambda: self.answers.get(ident))

    def do(self, kind: str, **fields: Any) -> Answer:
        """Sends a command and waits for its answer."""
        return self.answer(self.send(kind, **fields))

    def reserve(
        self, request_id: str, hold: str | None, parked: ContainerLaunch | None = None
    ) -> Answer:
        """A reservation, if need be with the launch to come."""
        fields: dict[str, Any] = {"request_id": request_id, "memory_mb": 100, "cores": 1}
        if hold is not None:
            fields["hold"] = hold
        if parked is not None:
            fields["launch"] = launch_to_wire(parked)
        return self.do("reserve", **fields)

    def start(self, request_id: str, wanted: ContainerLaunch) -> Answer:
        return self.do("start", request_id=request_id, launch=launch_to_wire(wanted))

    def container(self, execution_id: str) -> dict[str, Any]:
        """As the newest report has it; empty when it hasn't."""
        reported = {c["execution_id"]: c for c in self.report.get("containers", [])}
        return reported.get(execution_id, {})

    def wait_for(self, execution_id: str, **wanted: Any) -> dict[str, Any]:
        """The report on an incarnation once it has these values."""

        def look() -> dict[str, Any]:
            seen = self.container(execution_id)
            return seen if wanted.items() <= seen.items() else {}

        try:
            return until(f"{execution_id} is reported {wanted}", look)
        except AssertionError as error:
            raise AssertionError(f"{error}; report {self.report}") from None

    def reserved(self) -> dict[str, tuple[str | None, str | None]]:
        """Request → hold and the execution that uses it, as reported."""
        return {
            r["request_id"]: (r["hold"], r["execution_id"])
            for r in self.report.get("reservations", [])
        }


class _Sync(BaseHTTPRequestHandler):
    server: Coordinator
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self._send(401, {})
            return
        it = self.server
        with it.changed:
            it.report = body
            for told in body["acknowledged"]:
                it.answers[told["id"]] = (told["ok"], told["why"])
            it.open = [c for c in it.open if c["id"] not in it.answers]
            if body["wait_ms"]:
                it.changed.wait_for(lambda: it.open, timeout=min(body["wait_ms"] / 1000, 2))
            commands = list(it.open)
        self._send(
            200,
            {
                "version": 1,
                "epoch": 1,
                "losses": 0,
                "lease_ms": int(60_000 * PACE),
                "commands": commands,
            },
        )

    def _send(self, status: int, value: dict[str, Any]) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """The report is what counts."""


class Hold:
    """A container of the engine whose process the test is the parent of, as a NodeManager would be."""

    def __init__(self, node: Node, name: str) -> None:
        self.name = name
        self.errors = node.root / f"{name}.err"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*node.agent.program, "--hold", "@arguments"],
                cwd=node.root,
                env={**os.environ, "CONTAINER_ID": name},
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def ended(self) -> int:
        """Its exit code."""
        return self.process.wait(timeout=30 * PACE)

    def kill_9(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def said(self) -> str:
        return self.errors.read_text()


class EngineAgent(Agent):
    """An agent as the engine starts it: a constant command in a directory with four files."""

    def spawn(self) -> subprocess.Popen[bytes]:
        root = self.root.parent
        with (root / "agent.log").open("ab") as log:
            return subprocess.Popen(
                [*self.program, "@arguments"],
                cwd=root,
                env={
                    **os.environ,
                    "CONTAINER_ID": "container_of_the_agent",
                    "HADOOP_TOKEN_FILE_LOCATION": str(root / "container_tokens"),
                },
                stdout=log,
                stderr=log,
            )

    def log(self) -> str:
        return (self.root.parent / "agent.log").read_text()


class Node:
    """One host with its coordinator; at the end nothing of it lives."""

    def __init__(self, root: Path, python: str) -> None:
        self.root = root
        agent_archive.build().write(root / "agent.pyz")
        # Longer than the address of a unix socket may be.
        directory = root / ("d" * 100) / "agents" / "host-1"
        self.coordinator = Coordinator()
        (root / "arguments").write_text(
            f"--directory\n{directory}\n--host=host-1\n--memory-mb=1000\n--cores=8\n"
            "--coordinator-url-file=coordinator.url\n"
        )
        (root / "coordinator.url").write_text(self.coordinator.url)
        alias, token = b"samza-dagster.token", TOKEN.encode()
        (root / "container_tokens").write_bytes(
            b"HDTS\0\0\1" + bytes([len(alias)]) + alias + bytes([len(token)]) + token
        )
        self.agent = EngineAgent(
            directory.parents[1], "host-1", 1000, 8, program=(python, "-I", "agent.pyz")
        )
        self.holds: list[Hold] = []

    def hold(self, name: str) -> Hold:
        """Starts one."""
        made = Hold(self, name)
        self.holds.append(made)
        return made

    def waits(self, name: str, times: int = 1) -> None:
        """Until the agent has logged that the hold waits, so many times."""
        until(f"{name} waits", lambda: self.agent.log().count(f"hold {name} waits") >= times)

    def kill_agent(self) -> None:
        """SIGKILL, and the next one."""
        self.agent.kill_9()
        self.agent.restart()

    def parked(self, execution_id: str) -> int:
        """The process that waits for its start, once the agent reports it."""

        def look() -> int:
            listed = {p["execution_id"] for p in self.coordinator.report.get("parked", [])}
            record = self.agent.incarnation(execution_id) / "warden.json"
            known = execution_id in listed and record.exists()
            return json.loads(record.read_text())["container"]["pid"] if known else 0

        return until(f"{execution_id} is parked", look)

    def close(self) -> None:
        self.agent.program = PACKAGED
        self.agent.stop_all()
        self.agent.process.wait(timeout=10 * PACE)
        for each in self.holds:
            each.process.kill()
            each.process.wait()
        self.coordinator.shutdown()
        self.coordinator.server_close()


@contextmanager
def node(root: Path, python: str) -> Iterator[Node]:
    made = Node(root, python)
    try:
        yield made
    finally:
        made.close()
