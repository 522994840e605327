"""Dagster on a sandbox: a code server, a web server and a daemon.

The three start at once and share one code server. `dagster dev` starts them one after another,
and was slower to be ready.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from samza_dagster.configuration import variable
from samza_dagster.errors import (
    ActionFailed,
    DeadlineExceeded,
    InvalidInput,
    MissingPrerequisite,
    Unreachable,
)
from samza_dagster.sandbox import graphql, process
from samza_dagster.sandbox.dagster_runs import DagsterRuns
from samza_dagster.sandbox.ports import LOOPBACK, free_ports
from samza_dagster.sandbox.process import ProcessRecord, stop_groups
from samza_dagster.sandbox.registry import Registry

_POLL_S = 0.2
_STOP_S = 30.0
_LAST_ERRORS = 5
_ROLES = ("code-server", "webserver", "daemon")
PATIENCE = {"DAGSTER_GRPC_TIMEOUT_SECONDS": "180", "DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS": "60"}
"""The code server answers a launch after the run's worker has imported everything. On a busy
machine that takes longer than Dagster's 60 s, and Dagster fails the run meanwhile. Sensors have a
limit of their own, because a sensor that hangs would hold its thread."""
CODE_SERVER_THREADS = 48
"""Threads for the sensors of 16 Samza jobs, by `dagster.yaml`, for launches and for the web
server. Dagster's own default is four more than processors."""
_NOT_PASSED_ON = frozenset({"DAGSTER_HOME", "PYTHONHOME"})
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception)\b")


class DagsterStack:
    """A running Dagster on one DAGSTER_HOME.

    `home` gets a `dagster.yaml` on SQLite if it has none. `definitions` is a Python file, which
    names its code location unless `location` does. `env` is added to this process's environment
    for all three processes, and so for the runs.
    """

    def __init__(
        self,
        home: Path,
        definitions: Path,
        env: Mapping[str, str] | None = None,
        port: int | None = None,
        location: str = "",
    ) -> None:
        self.home = home.resolve()
        self._registry = processes_on(self.home)
        self.port = port or free_ports(1)[0]
        self._definitions = definitions.resolve()
        self.location = location or self._definitions.stem
        self._env = dict(env or {})
        self._code_port = free_ports(1)[0]
        self._processes: list[ProcessRecord] = []
        self._came_back = False
        self._stopped = threading.Event()
        self.runs = DagsterRuns(self.url, self.location)

    @property
    def url(self) -> str:
        """Return the URL of the UI, with the path prefix of Dagster's own variable."""
        path = self._environment.get("DAGSTER_WEBSERVER_PATH_PREFIX", "")
        return f"http://{LOOPBACK}:{self.port}{path}"

    @property
    def pids(self) -> dict[str, int]:
        """Return process ids by name, while they run."""
        return {each.role: each.pid for each in self._processes}

    @property
    def is_running(self) -> bool:
        """Return whether all three processes run, by the kernel."""
        return bool(self._processes) and all(each.is_alive for each in self._processes)

    def start(
        self, *, timeout_s: float = 90, before_daemon: Callable[[], object] = lambda: None
    ) -> None:
        """Start the three and wait until they are ready; `before_daemon` may delay its ticks.

        Ready means: GraphQL answers, the code location is loaded and every daemon that the
        instance needs has a heartbeat. Raises `DeadlineExceeded` that names what is missing and
        `ActionFailed` with the log of a process that ended, both after it has stopped the
        processes. Raises `InvalidInput` when a stack runs on this home already.
        """
        self._refuse_second()
        self._registry.forget()
        self.home.mkdir(parents=True, exist_ok=True)
        server = {"host": LOOPBACK, "port": self._code_port, "location_name": self.location}
        self._workspace.write_text(
            json.dumps({"load_from": [{"grpc_server": server}]}), encoding="utf-8"
        )
        self._prepare_instance(timeout_s)
        try:
            for name in _ROLES:
                if name == "daemon":
                    before_daemon()
                self._spawn(name)
            self.wait_ready(timeout_s)
        except BaseException:
            self.stop()
            raise

    def record(self, name: str) -> ProcessRecord:
        """Return one of the three processes, by its name."""
        return next(each for each in reversed(self._processes) if each.role == name)

    def restart(self, name: str) -> None:
        """Start one of the three again after its end, at its old port; call `wait_ready` next.

        Raises `InvalidInput` while the former process runs.
        """
        former = self.record(name)
        if former.is_alive:
            raise InvalidInput(f"restart the {name}", seen=f"process {former.pid} runs")
        self._spawn(name)  # the former stays on record, because a run outlives its code server
        self._came_back |= name == "code-server"

    @property
    def _workspace(self) -> Path:
        return self.home / "workspace.yaml"

    def _command(self, name: str) -> list[str]:
        workspace = str(self._workspace)
        if name == "code-server":
            return [
                *("dagster", "api", "grpc"),
                *("-f", str(self._definitions), "-d", str(self._definitions.parent)),
                *("--host", LOOPBACK, "--port", str(self._code_port)),
                *("--location-name", self.location),
                *("--max-workers", str(CODE_SERVER_THREADS)),
                *_logged(),
            ]
        if name == "webserver":
            where = ("-h", LOOPBACK, "-p", str(self.port))
            return ["dagster-webserver", "-w", workspace, *where, *_logged()]
        return ["dagster-daemon", "run", "-w", workspace, *_logged()]

    @property
    def _environment(self) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if k not in _NOT_PASSED_ON}
        own = {
            "DAGSTER_HOME": str(self.home),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            "PYTHONUNBUFFERED": "1",
        }
        return PATIENCE | inherited | self._env | own

    def _spawn(self, name: str) -> None:
        self._refuse_if_stopped()
        program, *arguments = self._command(name)
        started = self._run(name, program, *arguments)
        self._processes.append(started)
        self._registry.add(started)

    def _run(self, name: str, program: str, *arguments: str) -> ProcessRecord:
        command = process.with_default_signals([str(binary(program)), *arguments])
        return process.spawn(name, command, log=self._log(name), environment=self._environment)

    def _log(self, name: str) -> Path:
        return self.home / "logs" / f"{name}.log"

    def _prepare_instance(self, timeout_s: float) -> None:
        """Create the databases before any of the three starts: created by several at once, they may break.

        A process does it, since only the environment of the three may have the database's address.
        """
        from samza_dagster.orchestration.instance import FILE, write_instance

        if not (self.home / FILE).exists():
            write_instance(self.home)
        log = self._log("storage")
        opening = self._run("storage", "dagster", "instance", "migrate")
        try:
            ended = opening.wait(timeout_s)
        finally:
            opening.stop(grace_s=1)
        status = process.exit_status(opening)
        if not ended or status != 0:
            raise ActionFailed(
                "create Dagster's storage",
                seen=f"dagster instance migrate ended with {status}\n{_logged_errors(log)}",
                fix=f"the cause is in {log}",
            )

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the three are ready; raise as `start` does."""
        deadline = time.monotonic() + timeout_s
        missing = "no answer yet"
        while time.monotonic() < deadline:
            self._refuse_if_stopped()
            for each in map(self.record, _ROLES):
                status = process.exit_status(each)
                if status is not None:
                    log = self._log(each.role)
                    raise ActionFailed(
                        f"start Dagster's {each.role}",
                        seen=f"it ended with {status}\n{_logged_errors(log)}",
                        fix=f"the cause is in {log}",
                    )
            try:
                data = graphql.run(self.url, "Ready")
            except Unreachable:
                time.sleep(_POLL_S)
                continue
            missing = (
                graphql.not_ready(data) or self._code_server_fault() or self._connection_fault()
            )
            if not missing:
                self.runs = DagsterRuns(self.url, self.location, graphql.repository(data))
                return
            time.sleep(_POLL_S)
        raise DeadlineExceeded(
            f"Dagster ready within {timeout_s:g} s",
            seen=missing,
            fix=f"the logs in {self.home / 'logs'}",
        )

    def _code_server_fault(self) -> str:
        """Return why the code server isn't reachable; "" when it is."""
        # A web server that loaded from the former code server doesn't report this.
        try:
            socket.create_connection((LOOPBACK, self._code_port), timeout=1).close()
        except OSError as error:
            return f"code server: {error}"
        return ""

    def _connection_fault(self) -> str:
        """Return why the web server can't reach a restarted code server; "" when it can."""
        # Both may be up without a connection.
        if not self._came_back:
            return ""
        answer = graphql.run(self.url, "Reload", {"name": self.location})
        missing = graphql.not_reloaded(answer["reloadRepositoryLocation"])
        self._came_back = bool(missing)
        return missing

    def asset_url(self, *key: str) -> str:
        """Return the page of an asset."""
        return f"{self.url}/assets/{'/'.join(key)}"

    def stop(self, *, timeout_s: float = _STOP_S) -> None:
        """End the three, the daemon first, and confirm the end of their process groups.

        A process that hasn't ended by `timeout_s` is killed. The call is safe to repeat, also
        while another thread is in `start`: that thread then ends what it spawned and raises
        `ActionFailed`. A stopped stack doesn't start again.
        """
        self._stopped.set()
        processes, self._processes = self._processes, []
        stop_groups(processes, timeout_s=timeout_s)
        if processes:
            self._registry.forget()

    @classmethod
    def stop_recorded(cls, home: Path) -> bool:
        """End the stack that another process started on `home`; return whether there was one."""
        registry = processes_on(home)
        left = [each for each in registry.processes() if each.is_group_alive]
        stop_groups(left, timeout_s=_STOP_S)
        registry.forget()
        return bool(left)

    def _refuse_if_stopped(self) -> None:
        if self._stopped.is_set():
            raise ActionFailed("start Dagster", seen="it was stopped while it started")

    def _refuse_second(self) -> None:
        if alive := self._registry.live():
            raise InvalidInput(
                f"start Dagster on {self.home}",
                seen=", ".join(f"{each.role} runs as process {each.pid}" for each in alive),
                fix="stop that one first: two on one home take each other's runs",
            )


def processes_on(home: Path) -> Registry:
    """Return the record of a stack on `home`."""
    return Registry("processes", root=home)


def _logged_errors(log: Path) -> str:
    """Return the last exceptions of a log, first cause first, else its last lines."""
    tail = process.log_tail(log, 200)
    found = [line for line in tail.splitlines() if _EXCEPTION.match(line)]
    return "\n".join(found[-_LAST_ERRORS:]) or process.log_tail(log, _LAST_ERRORS)


def binary(name: str) -> Path:
    """Return a command of this Python's environment; raise `MissingPrerequisite`."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise MissingPrerequisite(
            name, seen=f"not in {path.parent}", fix="pip install 'samza_dagster[sandbox]'"
        )
    return path


def _logged() -> tuple[str, str]:
    """Return the log options that coordinator and agents have too."""
    is_json = os.environ.get(variable("log_format")) == "json"
    return "--log-format", "json" if is_json else "colored"
