"""The agent of a simulated node: its link to the coordinator is real, its containers are records."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from samza_dagster.agent import procfs
from samza_dagster.agent.lease import Grant
from samza_dagster.agent.link import CoordinatorLink
from samza_dagster.agent.parking import MOST_PARKED
from samza_dagster.agent.protocol import Launch
from samza_dagster.agent.reservations import Reservation, ResourceLedger
from samza_dagster.agent.roster import Roster
from samza_dagster.agent.supervisor import CommandOutcome
from tests.rig.simulated_yarn.delays import Delays, Recorded

CONNECTED = Recorded(0.10, 0.15)
"""A hold's process has begun, until its agent knows it."""
LAUNCHED = Recorded(0.10, 0.15)
JVM = Recorded(2.0, 2.6)
"""From a container's launch to its question for a JobModel."""
CHECKED_IN = Recorded(0.10, 0.15)
"""From the JobModel to the first heartbeat."""
STOPPED = Recorded(0.3, 0.4)
_LIVE = ("launching", "running", "stopping")


@dataclass
class _Container:
    """One incarnation, as a sync reports it; `hold` is its YARN container."""

    execution_id: str
    processor_id: str
    hold: str
    state: str = "launching"
    pid: int | None = None
    checked_in: bool = False
    exit_status: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "execution_id": self.execution_id,
            "processor_id": self.processor_id,
            "state": self.state,
            "pid": self.pid,
            "released": self.checked_in,
            "checked_in": self.checked_in,
            "exit_status": self.exit_status,
            "why": "",
            "stop_failed": "",
        }


@dataclass
class _Process:
    """A container's process, from its hold on; parked until it has a `container`."""

    execution_id: str
    request_id: str
    container: _Container | None = None
    launched: bool = False
    ready: bool = False


@dataclass
class SimulatedAgent:
    """Stands in the place of a `Supervisor` under a real `CoordinatorLink`.

    `on_hold_ended` is called with a YARN container's id and exit status, once its process has ended.
    """

    host: str
    directory: Path
    ledger: ResourceLedger
    url: str
    token: str
    delays: Delays
    on_hold_ended: Callable[[str, int], None]
    boot_id: str = field(default_factory=procfs.boot_id)
    journal: str = field(default_factory=lambda: str(uuid.uuid4()))
    roster: Roster = field(default_factory=Roster)
    gate: Any = field(default_factory=SimpleNamespace)

    def __post_init__(self) -> None:
        self._containers: dict[str, _Container] = {}
        self._parked: dict[str, _Process] = {}

    def begin(self) -> None:
        """Call the coordinator, for the life of this process."""
        self.directory.mkdir(parents=True, exist_ok=True)
        stands_in: Any = self
        url, token = self.directory / "coordinator.url", self.directory / "token"
        url.write_text(self.url)
        token.write_text(self.token)
        link = CoordinatorLink(stands_in, url_file=url, token_file=token)
        for target in (link.poll, link.push):
            threading.Thread(target=target, name=f"agent-{self.host}", daemon=True).start()

    def running(self) -> dict[str, bool]:
        """Return each processor with a live process here, and whether it has checked in."""
        with self.roster.changed:
            return {
                each.processor_id: each.checked_in
                for each in self._containers.values()
                if each.state in _LIVE
            }

    # What the link asks of a supervisor

    def report(self) -> dict[str, Any]:
        """See `Supervisor`."""
        with self.roster.changed:
            return {
                "resources": self.ledger.resources(),
                "reservations": self.ledger.to_json(),
                "containers": [each.to_json() for each in self._containers.values()],
                "parked": [
                    {"execution_id": p.execution_id, "request_id": p.request_id, "ready": p.ready}
                    for p in self._parked.values()
                ],
            }

    def hold_lease(self, grant: Grant) -> None:
        """See `Supervisor`; no lease ends within a measurement."""

    def reserve(
        self, request_id: str, memory_mb: int, cores: int, launch: Launch | None, hold: str | None
    ) -> CommandOutcome:
        """See `Supervisor`."""
        if hold is None:
            return CommandOutcome(False, "no hold is named")
        why = self.ledger.refusal(request_id, memory_mb, cores, hold)
        if why is not None:
            return CommandOutcome(False, why)
        self.ledger = self.ledger.reserve(request_id, memory_mb, cores, hold)
        if launch is not None and len(self._parked) < MOST_PARKED:
            parked = _Process(launch.execution_id, request_id)
            self._parked[launch.execution_id] = parked
            self.delays.later(CONNECTED, partial(self._launch, parked))
        return CommandOutcome(True)

    def release(self, request_id: str) -> CommandOutcome:
        """See `Supervisor`."""
        found = self.ledger.find(request_id)
        if found is not None and found.execution_id is None:
            for parked in [p for p in self._parked.values() if p.request_id == request_id]:
                del self._parked[parked.execution_id]
            self.ledger = self.ledger.release(request_id)
            self._end_hold(found, 0)
        return CommandOutcome(True)

    def start(self, request_id: str, launch: Launch) -> CommandOutcome:
        """See `Supervisor`."""
        if launch.execution_id in self._containers:
            return CommandOutcome(True)
        why = self.ledger.refusal_to_use(request_id)
        found = self.ledger.find(request_id)
        if why is not None or found is None:
            return CommandOutcome(False, why or "nothing is held")
        self.ledger = self.ledger.use(request_id, launch.execution_id)
        container = _Container(launch.execution_id, launch.processor_id, found.hold or "")
        self._containers[launch.execution_id] = container
        process = self._parked.pop(launch.execution_id, None)
        if process is None:
            self._launch(_Process(launch.execution_id, request_id, container))
        else:
            process.container = container
            self._advance(process)
        return CommandOutcome(True)

    def stop(self, execution_id: str) -> CommandOutcome:
        """See `Supervisor`."""
        self._parked.pop(execution_id, None)
        found = self._containers.get(execution_id)
        if found is None:
            return CommandOutcome(False, f"unknown: no record of {execution_id}")
        if found.state in ("launching", "running"):
            found.state = "stopping"
            self.delays.later(STOPPED, partial(self._ended, found))
            self.roster.tell()
        return CommandOutcome(True)

    def forget(self, execution_id: str) -> CommandOutcome:
        """See `Supervisor`."""
        found = self._containers.get(execution_id)
        if found is not None and found.state in _LIVE:
            return CommandOutcome(False, f"{execution_id} is {found.state}")
        self._containers.pop(execution_id, None)
        self.roster.tell()
        return CommandOutcome(True)

    # What happens by itself

    def _launch(self, process: _Process) -> None:
        self.delays.later(LAUNCHED, partial(self._launched, process))

    def _launched(self, process: _Process) -> None:
        with self.roster.changed:
            process.launched = True
            self.delays.later(JVM, partial(self._ready, process))
            self._advance(process)

    def _ready(self, process: _Process) -> None:
        with self.roster.changed:
            process.ready = True
            self._advance(process)

    def _advance(self, process: _Process) -> None:
        container = process.container
        if container is not None and container.state == "launching" and process.launched:
            container.state, container.pid = "running", os.getpid()
        if container is not None and process.ready:
            self.delays.later(CHECKED_IN, partial(self._checked_in, container))
        self.roster.tell()

    def _checked_in(self, container: _Container) -> None:
        with self.roster.changed:
            if container.state == "running":
                container.checked_in = True
                self.roster.tell()

    def _ended(self, container: _Container) -> None:
        with self.roster.changed:
            container.state, container.exit_status = "dead", 143
            self.ledger = self.ledger.bury(container.execution_id)
            self.roster.tell()
        self.on_hold_ended(container.hold, 143)

    def _end_hold(self, reservation: Reservation, exit_status: int) -> None:
        if reservation.hold is not None:
            self.on_hold_ended(reservation.hold, exit_status)
