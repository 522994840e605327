"""Carries faults out on a sandbox's processes, by their ids, and takes them back.

What can't be taken back (a kill) is followed by what an operator's init would do: agents,
coordinator and broker are started again. Containers are left to whoever keeps them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from samza_dagster.agent.files import read_json
from samza_dagster.sandbox.coordinator_process import ROLE as COORDINATOR
from tests.chaos.schedule import Fault
from tests.rig.broker import BROKER, kill_broker
from tests.rig.sandbox_job import SandboxJob

Undo = Callable[[], None]


class Acts:
    """Everything that can befall one sandbox."""

    def __init__(self, job: SandboxJob) -> None:
        self._job = job
        self._registry = job.sandbox.registry

    def carry_out(self, fault: Fault) -> tuple[str, Undo]:
        """Does it now; says to whom, and how it is taken back."""
        how, _, whom = fault.kind.partition(" ")
        match whom:
            case "container" | "warden" | "agent and warden":
                return self._to_container(fault, how, whom)
            case "agent" if how in ("kill", "stop"):
                host = self._host(fault)
                return host, self._signal(how, self._agent(host), lambda: self._agent_again(host))
            case "host":
                return self._to_host(fault, how)
            case "coordinator":
                return self._to_coordinator(how)
            case "broker":
                return BROKER, kill_broker(self._job.sandbox)
            case _:
                host = self._host(fault)
                return host, self._cut_off(host)

    def heal(self) -> None:
        """Everything that should run does: nothing is left stopped, agents and coordinator are up."""
        for pid in self._all_pids():
            _send(pid, signal.SIGCONT)
        for host in self._job.host_names:
            self._agent_again(host)
        if not self._registry.live(COORDINATOR):
            self._start_coordinator()

    # Whom

    def _host(self, fault: Fault) -> str:
        names = self._job.host_names
        return names[fault.victim % len(names)]

    def _agent(self, host: str) -> list[int]:
        return [r.pid for r in self._registry.live(self._job.simulated(host).role)]

    def _containers(self, host: str | None = None) -> list[tuple[str, int, int]]:
        """Execution id, warden and container of each that is alive, by the wardens' records."""
        found: list[tuple[str, int, int]] = []
        for name in self._job.host_names if host is None else [host]:
            for record in sorted(self._job.host_directory(name).glob("incarnations/*/warden.json")):
                named: dict[str, Any] = read_json(record) or {}
                container: dict[str, Any] = named.get("container") or {}
                pid = container.get("pid")
                if pid and Path(f"/proc/{pid}").exists():
                    found.append((record.parent.name, named["warden"]["pid"], pid))
        return found

    def _all_pids(self) -> list[int]:
        pids = [pid for _, *both in self._containers() for pid in both]
        pids += [pid for host in self._job.host_names for pid in self._agent(host)]
        return [*pids, *(r.pid for r in self._registry.live(COORDINATOR))]

    # What

    def _to_container(self, fault: Fault, how: str, whom: str) -> tuple[str, Undo]:
        containers = self._containers()
        if not containers:
            return "nobody", lambda: None
        execution, warden, pid = containers[fault.victim % len(containers)]
        if whom == "container":
            return execution, self._signal(how, [pid])
        if whom == "warden":
            return execution, self._signal(how, [warden])
        host = next(
            name
            for name in self._job.host_names
            if (self._job.host_directory(name) / "incarnations" / execution).is_dir()
        )
        pids = [*self._agent(host), warden]
        return f"{host} {execution}", self._signal(how, pids, lambda: self._agent_again(host))

    def _to_host(self, fault: Fault, how: str) -> tuple[str, Undo]:
        host = self._host(fault)
        pids = [*self._agent(host), *(p for _, *both in self._containers(host) for p in both)]
        how = "stop" if how == "freeze" else how
        return host, self._signal(how, pids, lambda: self._agent_again(host))

    def _to_coordinator(self, how: str) -> tuple[str, Undo]:
        pids = [record.pid for record in self._registry.live(COORDINATOR)]
        if how == "replace":
            self._start_coordinator()
            return COORDINATOR, self._signal("kill", pids)
        how = "stop" if how == "freeze" else how
        return COORDINATOR, self._signal(how, pids, self._coordinator_again)

    def _cut_off(self, host: str) -> Undo:
        """The agent finds no coordinator: nobody listens at the address that it reads."""
        found = self._job.simulated(host)
        for record in self._registry.live(found.role):
            record.send(signal.SIGKILL)
            record.wait(10)
        nowhere = found.directory / "nowhere.url"
        nowhere.write_text("http://127.0.0.1:9\n")
        files = self._job.sandbox.files
        found.start(url_file=nowhere, token_file=files.token, on_spawn=self._registry.add)

        def reconnected() -> None:
            self._signal("kill", self._agent(host))
            self._agent_again(host)

        return reconnected

    def _agent_again(self, host: str) -> None:
        for pid in self._agent(host):
            _send(pid, signal.SIGCONT)
        if not self._agent(host):
            self._job.start_agent(host)

    def _coordinator_again(self) -> None:
        for record in self._registry.live(COORDINATOR):
            record.send(signal.SIGCONT)
        if not self._registry.live(COORDINATOR):
            self._start_coordinator()

    def _start_coordinator(self) -> None:
        self._job.sandbox.files.start(on_spawn=self._registry.add)

    def _signal(self, how: str, pids: list[int], then: Undo = lambda: None) -> Undo:
        number = signal.SIGKILL if how == "kill" else signal.SIGSTOP
        for pid in pids:
            _send(pid, number)

        def undo() -> None:
            for pid in reversed(pids):  # who is looked after wakes before who looks after him
                _send(pid, signal.SIGCONT)
            then()

        return undo


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
