"""What somebody asks of a virtual standalone group, and who judges what its ZooKeeper holds of the answers.

Judged as it is written: a request is taken up once, what has ended doesn't end again, what has failed leaves
no pin, SUCCEEDED is true, and a published version has each pinned task where it is pinned, if it can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from samza_dagster.metadata.zookeeper_store import segments_of
from samza_dagster.model import JobModel
from samza_dagster.model.naming import (
    ANY_HOST,
    LAST_SEEN,
    STANDALONE_DEPLOYMENT,
    STANDBY,
    active_task_of,
    standby_task_name,
)
from samza_dagster.model.placement_messages import (
    PLACEMENT_NAMESPACE,
    REQUEST,
    RESPONSE,
    PlacementRequest,
    PlacementResponse,
    StatusCode,
    parse_response,
)
from samza_dagster.standalone import layout
from samza_dagster.standalone.group import GroupView, Pin, Running, processor_of
from samza_dagster.standalone.processor import ProcessorState
from samza_dagster.standalone.requests import Respond, SetPin, SetRestart
from tests.simulation.standalone_process import PATHS, VirtualProcess
from tests.simulation.standalone_server import Change, Server


@dataclass
class Placement:
    """What lies there, and what the judge remembers: where each task was started last, and when each processor."""

    requests: dict[str, PlacementRequest] = field(default_factory=dict[str, PlacementRequest])
    responses: dict[str, PlacementResponse] = field(default_factory=dict[str, PlacementResponse])
    pins: dict[str, Pin] = field(default_factory=dict[str, Pin])
    restarts: dict[str, str] = field(default_factory=dict[str, str])
    started_at: dict[str, str] = field(default_factory=dict[str, str])
    started_ms: dict[str, int] = field(default_factory=dict[str, int])
    _taken_ms: dict[str, int] = field(default_factory=dict[str, int])
    _taken: Counter[str] = field(default_factory=Counter[str])
    _restarted: set[str] = field(default_factory=set[str])

    def ask(self, server: Server, request: PlacementRequest) -> None:
        """As a client writes it."""
        parent = f"{PATHS.placement}/{PLACEMENT_NAMESPACE}"
        if parent not in server.nodes:  # no processor was there yet
            return
        path = f"{parent}/{request.uuid}.{REQUEST}"
        self.requests[request.uuid] = request
        server.create(path, None, 0, 0)
        (segment,) = segments_of(request.to_json().encode())
        server.create(f"{path}/0", segment, 0, 0)

    def written(
        self, change: Change, process: VirtualProcess | None, group: Callable[[], GroupView]
    ) -> Iterator[str]:
        """What a processor wrote or deleted; gives what is wrong with it, by the group as it is."""
        parent, _, name = change.path.rpartition("/")
        if parent == PATHS.pins:
            pin = None if change.is_gone else layout.pin_of(name, change.data)
            yield from self.write(SetPin(name, pin), group)
        elif parent == PATHS.restarts:
            uuid = None if change.is_gone else layout.restart_of(name, change.data)
            yield from self.write(SetRestart(name, uuid), group)
        elif parent == PATHS.running and change.data and process is not None:
            self._report(
                process.state, layout.running_of(name, change.data), runs=bool(process.run)
            )
        elif parent.endswith(f".{RESPONSE}") and change.data:
            yield from self.write(Respond(parse_response(change.data[:-8])), group)
        elif parent.endswith(f"/{PLACEMENT_NAMESPACE}") and change.is_gone:
            uuid, _, kind = name.partition(".")
            (self.requests if kind == REQUEST else self.responses).pop(uuid, None)

    def waiting(self) -> tuple[PlacementRequest, ...]:
        """Requests without a response, oldest first."""
        left = (each for uuid, each in self.requests.items() if uuid not in self.responses)
        return tuple(sorted(left, key=lambda each: (each.timestamp, each.uuid)))

    def open_ones(self) -> list[str]:
        """Requests that haven't ended."""
        begun = [r.uuid for r in self.responses.values() if not r.status_code.is_terminal]
        return [*(request.uuid for request in self.waiting()), *begun]

    def _report(self, process: ProcessorState, running: Running, *, runs: bool) -> None:
        """Whether a processor has restarted for a request is judged by what it says that it runs."""
        uuid = running.restart or ""
        began_ms = self._taken_ms.get(uuid, 0)
        if not runs or self.started_ms.get(process.processor_id, 0) >= began_ms:
            self._restarted.add(uuid)

    def write(
        self, command: SetPin | SetRestart | Respond, of: Callable[[], GroupView]
    ) -> Iterator[str]:
        """What a leader made of a request."""
        if isinstance(command, SetPin):
            if command.pin is None:
                self.pins.pop(command.task, None)
            else:
                self.pins[command.task] = command.pin
                yield from self._taken_up(command.pin.uuid, of().read_ms)
        elif isinstance(command, SetRestart):
            if command.uuid is None:
                uuid = self.restarts.pop(command.processor_id, None)
                response = self.responses.get(uuid or "")
                if response is not None and not response.status_code.is_terminal:
                    yield f"a restart under way goes on: {command.processor_id}"
            else:
                self.restarts[command.processor_id] = command.uuid
                yield from self._taken_up(command.uuid, of().read_ms)
        else:
            response = command.response
            before = self.responses.get(response.uuid)
            if before is not None and before.status_code.is_terminal:
                if before.status_code is not response.status_code:
                    yield f"ends once: {before.status_code}, then {response.status_code}"
            elif response.status_code is StatusCode.SUCCEEDED:
                group = of()
                owner = group.first_of(processor_of(group.model, response.processor_id) or "")
                if owner is None or owner.holds_standbys:  # Samza's own don't say when they start
                    yield from self._untrue(response, group)
            elif response.status_code is StatusCode.FAILED:
                pin = self.pins.get(response.processor_id)
                if pin is not None and pin.uuid == response.uuid:
                    yield f"what has failed leaves no pin: {response.processor_id}"
            self.responses[response.uuid] = response

    def unmet(self, model: JobModel, group: GroupView) -> Iterator[str]:
        """Pinned tasks that a version made for this group has elsewhere though it needn't."""
        places = {member.processor_id: member.location for member in group.members}
        holders = {member.location for member in group.members if member.holds_standbys}

        def place(task: str) -> str | None:
            return places.get(processor_of(model, task) or "")

        for task, pin in self.pins.items():
            active = active_task_of(task)
            is_free = task == active or (place(active) != pin.location and pin.location in holders)
            if pin.location in places.values() and is_free and place(task) != pin.location:
                yield f"a pinned task is where it is pinned: {task} at {place(task)}, not {pin.location}"

    def _taken_up(self, uuid: str, now_ms: int) -> Iterator[str]:
        self._taken_ms[uuid] = now_ms
        self._taken[uuid] += 1
        if self._taken[uuid] > 1:
            yield f"a request is taken up once: {uuid}"

    def _untrue(self, response: PlacementResponse, group: GroupView) -> Iterator[str]:
        name, uuid = response.processor_id, response.uuid
        if response.destination_host == LAST_SEEN:
            if uuid not in self._restarted:
                yield f"SUCCEEDED is true: {name} hasn't restarted"
        elif response.destination_host == ANY_HOST:
            if name in self.pins:
                yield f"SUCCEEDED is true: {name} is pinned"
        elif self.pins[name].uuid != uuid or self.started_at.get(name) != self.pins[name].location:
            yield f"SUCCEEDED is true: {name} runs at {self.started_at.get(name)}"


def request_of(chance: Random, actives: Iterable[str], now_ms: int) -> PlacementRequest:
    """A request, mostly one that makes sense, for one of these tasks, a standby of it or a processor."""
    tasks = sorted(actives)
    processors = [f"p{number}" for number in range(6)]
    places = [f"h{number}" for number in range(3)]
    standbys = [standby_task_name(task, 0) for task in tasks]
    name = chance.choice([*tasks * 3, *standbys * 2, *processors, "nobody"])
    destinations = [LAST_SEEN] if name in processors else [*places, *places, STANDBY, ANY_HOST]
    if chance.random() < 0.1:
        destinations = [*places, STANDBY, ANY_HOST, LAST_SEEN]
    return PlacementRequest(
        uuid=str(UUID(int=chance.getrandbits(128))),
        deployment_id=STANDALONE_DEPLOYMENT,
        processor_id=name,
        destination_host=chance.choice(destinations),
        timestamp=now_ms,
        request_expiry=chance.choice([None, 3_000]),
    )
