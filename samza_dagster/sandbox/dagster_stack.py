"""Dagster as the sandbox runs it: a code server, a web server and a daemon.

The three start at once and share one code server. `dagster dev` starts them one after
another, and was slower to be ready.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from samza_dagster.errors import (
    ActionFailed,
    DeadlineExceeded,
    InvalidInput,
    MissingPrerequisite,
    Unreachable,
)
from samza_dagster.sandbox import graphql
from samza_dagster.sandbox.child import Child

RECORD = "stack.json"
ENDED = frozenset({"SUCCESS", "FAILURE", "CANCELED"})
_POLL_S = 0.2
_NOT_PASSED_ON = frozenset({"DAGSTER_HOME", "PYTHONHOME"})
OnEvent = Callable[[Mapping[str, Any]], None]


class DagsterStack:
    """A running Dagster on one DAGSTER_HOME.

    `home` gets a `dagster.yaml` if it has none. `workspace` is a `workspace.yaml` with
    one `python_file`, or the Python file itself. `env` is added to this process's
    environment for all three and so for the runs.
    """

    def __init__(
        self,
        home: Path,
        workspace: Path,
        env: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
        port: int | None = None,
    ) -> None:
        self.home = home.resolve()
        self.host = host
        self.port = port or free_port(host)
        self._definitions, self.location = read_workspace(workspace.resolve())
        self._env = dict(env or {})
        self._children: list[Child] = []
        self._repository = "__repository__"

    @property
    def url(self) -> str:
        """Where the UI is."""
        return f"http://{self.host}:{self.port}"

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by name, while they run."""
        return {child.name: child.pid for child in self._children}

    def start(self, *, timeout_s: float = 90) -> None:
        """Starts the three and waits until they are ready.

        Ready: GraphQL answers, the code location is loaded and every daemon that the
        instance needs has a heartbeat. Raises `DeadlineExceeded` that names what is
        missing, `ActionFailed` with the log of a process that ended, both after having
        stopped what was started; `InvalidInput` when a stack runs on this home already.
        """
        self._refuse_second()
        self.home.mkdir(parents=True, exist_ok=True)
        code_port = free_port(self.host)
        workspace = self.home / "workspace.yaml"
        workspace.write_text(
            json.dumps(
                {
                    "load_from": [
                        {
                            "grpc_server": {
                                "host": self.host,
                                "port": code_port,
                                "location_name": self.location,
                            }
                        }
                    ]
                }
            ),
            encoding="utf-8",
        )
        self._prepare_instance()  # before any of the three: each of them opens the databases
        try:
            self._start_children(code_port, workspace)
            self._wait_ready(timeout_s)
        except BaseException:
            self.stop()
            raise

    def _start_children(self, code_port: int, workspace: Path) -> None:
        definitions = str(self._definitions)
        commands = {
            "code-server": [
                *("dagster", "api", "grpc"),
                *("-f", definitions, "-d", str(self._definitions.parent)),
                *("--host", self.host, "--port", str(code_port)),
                *("--location-name", self.location),
            ],
            "webserver": [
                *("dagster-webserver", "-w", str(workspace)),
                *("-h", self.host, "-p", str(self.port)),
            ],
            "daemon": ["dagster-daemon", "run", "-w", str(workspace)],
        }
        environment = {k: v for k, v in os.environ.items() if k not in _NOT_PASSED_ON}
        environment |= self._env
        environment |= {
            "DAGSTER_HOME": str(self.home),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            "PYTHONUNBUFFERED": "1",
        }
        for name, command in commands.items():
            child = Child.start(
                name,
                [str(binary(command[0])), *command[1:]],
                environment,
                self.home / "logs" / f"{name}.log",
            )
            self._children.append(child)
            self._record()

    def _prepare_instance(self) -> None:
        from samza_dagster.orchestration.instance import FILE, prepare_storage, write_instance

        if not (self.home / FILE).exists():
            write_instance(self.home)
        prepare_storage(self.home)

    def _wait_ready(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        missing = "no answer yet"
        while time.monotonic() < deadline:
            for child in self._children:
                if child.exit_status() is not None:
                    raise ActionFailed(
                        f"start Dagster's {child.name}",
                        seen=f"it ended with {child.exit_status()}\n{child.errors()}",
                        fix=f"the cause is in {child.log}",
                    )
            try:
                data = graphql.ask(self.url, graphql.READY)
            except Unreachable:
                time.sleep(_POLL_S)
                continue
            missing = graphql.not_ready(data)
            if not missing:
                self._note_repository(data)
                return
            time.sleep(_POLL_S)
        raise DeadlineExceeded(
            f"Dagster ready within {timeout_s:g} s",
            seen=missing,
            fix=f"the logs in {self.home / 'logs'}",
        )

    def _note_repository(self, data: Mapping[str, Any]) -> None:
        entry = data["workspaceOrError"]["locationEntries"][0]
        self._repository = entry["locationOrLoadError"]["repositories"][0]["name"]

    def launch(
        self,
        job_name: str,
        run_config: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> str:
        """Launches a run and returns its id; raises `InvalidInput` with Dagster's reason."""
        params = {
            "selector": {
                "jobName": job_name,
                "repositoryName": self._repository,
                "repositoryLocationName": self.location,
            },
            "runConfigData": dict(run_config or {}),
            "executionMetadata": {
                "tags": [{"key": key, "value": value} for key, value in (tags or {}).items()]
            },
        }
        answer = graphql.ask(self.url, graphql.LAUNCH, {"params": params})["launchRun"]
        return graphql.launched(answer, f"launch job {job_name}")

    def reexecute(self, run_id: str) -> str:
        """Re-executes a run from its failure and returns the new run's id."""
        params = {"parentRunId": run_id, "strategy": "FROM_FAILURE"}
        answer = graphql.ask(self.url, graphql.REEXECUTE, {"params": params})
        return graphql.launched(answer["launchRunReexecution"], f"re-execute run {run_id}")

    def terminate(self, run_id: str) -> None:
        """Asks for a run to be cancelled."""
        graphql.ask(self.url, graphql.TERMINATE, {"runId": run_id})

    def wait(self, run_id: str, on_event: OnEvent | None = None, *, timeout_s: float = 300) -> str:
        """The final status of a run: SUCCESS, FAILURE or CANCELED.

        `on_event` gets each event once, in order: `__typename`, `message`, `timestamp`
        (ms since the epoch, text), `level`, `stepKey`, `eventType`. Raises
        `DeadlineExceeded` after `timeout_s`; the run goes on.
        """
        deadline = time.monotonic() + timeout_s
        after: str | None = None
        status = ""
        while time.monotonic() < deadline:
            data = graphql.ask(self.url, graphql.LOGS, {"runId": run_id, "after": after})
            run, logs = data["runOrError"], data["logsForRun"]
            if run["__typename"] != "Run":
                raise InvalidInput(f"run {run_id}", seen=str(run.get("message")))
            status = str(run["status"])
            for event in cast("list[dict[str, Any]]", logs.get("events") or []):
                if on_event is not None:
                    on_event(event)
            after = logs.get("cursor") or after
            if not logs.get("hasMore"):
                if status in ENDED:
                    return status
                time.sleep(_POLL_S)
        raise DeadlineExceeded(f"run {run_id} ended within {timeout_s:g} s", seen=status)

    def run_url(self, run_id: str) -> str:
        """The page of a run."""
        return f"{self.url}/runs/{run_id}"

    def asset_url(self, *key: str) -> str:
        """The page of an asset."""
        return f"{self.url}/assets/{'/'.join(key)}"

    def stop(self, *, timeout_s: float = 30) -> None:
        """Ends the three, the daemon first, and confirms that their process groups are gone.

        What hasn't ended by `timeout_s` is killed. Safe to call again.
        """
        children, self._children = list(self._children), []
        stop_children(children, timeout_s=timeout_s)
        (self.home / RECORD).unlink(missing_ok=True)

    @classmethod
    def stop_recorded(cls, home: Path, *, timeout_s: float = 30) -> bool:
        """Ends the stack that another process started on `home`; whether there was one."""
        children = [child for child in recorded(home) if child.group_alive()]
        stop_children(children, timeout_s=timeout_s)
        (home / RECORD).unlink(missing_ok=True)
        return bool(children)

    def _record(self) -> None:
        record = {
            "url": self.url,
            "processes": [
                {
                    "name": c.name,
                    "pid": c.pid,
                    "started_ticks": c.started_ticks,
                    "log": str(c.log),
                }
                for c in self._children
            ],
        }
        path = self.home / RECORD
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(record), encoding="utf-8")
        temporary.replace(path)

    def _refuse_second(self) -> None:
        alive = [child for child in recorded(self.home) if child.is_ours()]
        if alive:
            raise InvalidInput(
                f"start Dagster on {self.home}",
                seen=", ".join(f"{c.name} runs as process {c.pid}" for c in alive),
                fix="stop that one first: two on one home take each other's runs",
            )


def stop_children(children: list[Child], *, timeout_s: float) -> None:
    """Ends processes in reverse order of their start; kills what stays.

    Raises `ActionFailed` when a group survives even that.
    """
    deadline = time.monotonic() + timeout_s
    for child in reversed(children):
        child.terminate()
    late = [child for child in children if not child.wait_gone(deadline)]
    for child in late:
        child.kill_group()
    left = [child for child in late if not child.wait_gone(time.monotonic() + 5)]
    if left:
        raise ActionFailed(
            "stop Dagster",
            seen=", ".join(f"{c.name}: group {c.pid} is still there" for c in left),
        )


def recorded(home: Path) -> list[Child]:
    """The processes that a stack on `home` recorded; empty when there is no record."""
    try:
        data = json.loads((home / RECORD).read_text(encoding="utf-8"))
        return [
            Child(p["name"], int(p["pid"]), Path(p["log"]), int(p["started_ticks"]))
            for p in data["processes"]
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def read_workspace(path: Path) -> tuple[Path, str]:
    """The Python file of a workspace and its location's name.

    `path` is a `workspace.yaml` with one `python_file`, or the Python file. Raises
    `InvalidInput` for anything else.
    """
    import yaml

    if path.suffix == ".py":
        return path, path.stem
    try:
        document = cast("dict[str, Any]", yaml.safe_load(path.read_text(encoding="utf-8")))
        (entry,) = document["load_from"]
        target = entry["python_file"]
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"a workspace in {path}",
            seen=f"{type(error).__name__}: {error}",
            fix="load_from with one python_file",
        ) from error
    settings = (
        cast("dict[str, Any]", target) if isinstance(target, dict) else {"relative_path": target}
    )
    file = (path.parent / str(settings["relative_path"])).resolve()
    return file, str(settings.get("location_name") or file.name)


def free_port(host: str) -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def binary(name: str) -> Path:
    """A command of this Python's environment; raises `MissingPrerequisite`."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise MissingPrerequisite(
            name, seen=f"not in {path.parent}", fix="pip install 'samza_dagster[sandbox]'"
        )
    return path
