"""What somebody asks of a virtual standalone group, as it lies in its ZooKeeper, and who judges the answers.

Judged as it is written: a request is taken up once, what has ended doesn't end again, what has failed leaves
no pin, SUCCEEDED is true, and a published version has each pinned task where it is pinned, if it can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from samza_dagster.model import JobModel
from samza_dagster.model.naming import ANY_HOST, LAST_SEEN, active_task_of
from samza_dagster.model.placement_messages import PlacementRequest, PlacementResponse, StatusCode
from samza_dagster.standalone.group import Pin, Running, processor_of
from samza_dagster.standalone.requests import Command, Forget, Respond, SetPin, SetRestart


@dataclass
class Placement:
    """The nodes, and what the judge remembers: where each task was started last, and when each processor."""

    requests: dict[str, PlacementRequest] = field(default_factory=dict[str, PlacementRequest])
    responses: dict[str, PlacementResponse] = field(default_factory=dict[str, PlacementResponse])
    pins: dict[str, Pin] = field(default_factory=dict[str, Pin])
    restarts: dict[str, str] = field(default_factory=dict[str, str])
    running: dict[str, Running] = field(default_factory=dict[str, Running])
    started_at: dict[str, str] = field(default_factory=dict[str, str])
    started_ms: dict[str, int] = field(default_factory=dict[str, int])
    _taken_ms: dict[str, int] = field(default_factory=dict[str, int])
    _taken: Counter[str] = field(default_factory=Counter[str])

    def waiting(self) -> tuple[PlacementRequest, ...]:
        """Requests without a response, oldest first."""
        left = (each for uuid, each in self.requests.items() if uuid not in self.responses)
        return tuple(sorted(left, key=lambda each: (each.timestamp, each.uuid)))

    def open_ones(self) -> list[str]:
        """Requests that haven't ended."""
        begun = [r.uuid for r in self.responses.values() if not r.status_code.is_terminal]
        return [*(request.uuid for request in self.waiting()), *begun]

    def write(self, command: Command, model: JobModel | None, now_ms: int) -> Iterator[str]:
        """Writes what a leader made of a request; gives what is wrong with it."""
        if isinstance(command, SetPin):
            if command.pin is None:
                self.pins.pop(command.task, None)
            else:
                self.pins[command.task] = command.pin
                yield from self._taken_up(command.pin.uuid, now_ms)
        elif isinstance(command, SetRestart):
            if command.uuid is None:
                uuid = self.restarts.pop(command.processor_id, None)
                response = self.responses.get(uuid or "")
                if response is not None and not response.status_code.is_terminal:
                    yield f"a restart under way goes on: {command.processor_id}"
            else:
                self.restarts[command.processor_id] = command.uuid
                yield from self._taken_up(command.uuid, now_ms)
        elif isinstance(command, Respond):
            response = command.response
            before = self.responses.get(response.uuid)
            if before is not None and before.status_code.is_terminal:
                if before.status_code is not response.status_code:
                    yield f"ends once: {before.status_code}, then {response.status_code}"
            elif response.status_code is StatusCode.SUCCEEDED:
                yield from self._untrue(response, model)
            elif response.status_code is StatusCode.FAILED:
                pin = self.pins.get(response.processor_id)
                if pin is not None and pin.uuid == response.uuid:
                    yield f"what has failed leaves no pin: {response.processor_id}"
            self.responses[response.uuid] = response
            self.requests.pop(response.uuid, None)
        else:
            assert isinstance(command, Forget)
            self.requests.pop(command.uuid, None)
            self.responses.pop(command.uuid, None)

    def unmet(self, model: JobModel, places: Mapping[str, str]) -> Iterator[str]:
        """Pinned tasks that a version for processors at these places has elsewhere though it needn't."""

        def place(task: str) -> str | None:
            return places.get(processor_of(model, task) or "")

        for task, pin in self.pins.items():
            active = active_task_of(task)
            is_free = task == active or place(active) != pin.location
            if pin.location in places.values() and is_free and place(task) != pin.location:
                yield f"a pinned task is where it is pinned: {task} at {place(task)}, not {pin.location}"

    def _taken_up(self, uuid: str, now_ms: int) -> Iterator[str]:
        self._taken_ms[uuid] = now_ms
        self._taken[uuid] += 1
        if self._taken[uuid] > 1:
            yield f"a request is taken up once: {uuid}"

    def _untrue(self, response: PlacementResponse, model: JobModel | None) -> Iterator[str]:
        name, uuid = response.processor_id, response.uuid
        if response.destination_host == LAST_SEEN:
            container = model.containers.get(name) if model is not None else None
            is_idle = container is None or not container.tasks
            if not is_idle and self.started_ms.get(name, 0) < self._taken_ms[uuid]:
                yield f"SUCCEEDED is true: {name} hasn't restarted"
        elif response.destination_host == ANY_HOST:
            if name in self.pins:
                yield f"SUCCEEDED is true: {name} is pinned"
        elif self.pins[name].uuid != uuid or self.started_at.get(name) != self.pins[name].location:
            yield f"SUCCEEDED is true: {name} runs at {self.started_at.get(name)}"
