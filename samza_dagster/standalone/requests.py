"""Handle placement requests of a group as its leader: pins, restarts and responses. Pure.

A request for a task pins it to a location; one for a processor has it restart its containers. What
is under way shows in its response, and in its uuid in the pin or restart: the next leader continues
from there. A task and its standbys have one request under way at a time; later ones wait for its
end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from samza_dagster.assignment.comparison import places_of
from samza_dagster.model import JobModel
from samza_dagster.model.naming import (
    ANY_HOST,
    DESTINATION_WORDS,
    LAST_SEEN,
    STANDALONE_DEPLOYMENT,
    STANDBY,
    active_task_of,
)
from samza_dagster.model.placement_messages import (
    PlacementRequest,
    PlacementResponse,
    ResponseDetails,
    StatusCode,
)
from samza_dagster.placement import texts
from samza_dagster.standalone.group import BarrierState, GroupView, Pin, processor_of

_WHAT = "tasks are placed, and processors restarted"
RESPONSES_KEPT_MS = 24 * 3_600_000
"""A response is deleted so long after it was written."""


@dataclass(frozen=True)
class SetPin:
    """Pin the task to a location; None: not any more."""

    task: str
    pin: Pin | None


@dataclass(frozen=True)
class SetRestart:
    """Have the processor restart its containers for this request; None: not any more."""

    processor_id: str
    uuid: str | None


@dataclass(frozen=True)
class Respond:
    """Write the response, then delete the request."""

    response: PlacementResponse


@dataclass(frozen=True)
class Forget:
    """Delete request and response, in this order: the request must not be taken for a new one."""

    uuid: str


Command = SetPin | SetRestart | Respond | Forget


def commands_for(group: GroupView, *, is_settled: bool = True) -> tuple[Command, ...]:
    """Return the leader's commands after one reading: requests that end, and those that are taken up.

    `is_settled`: the newest version was made for the members that are there; one of Samza's own
    that has come back elsewhere since hasn't joined it.
    """
    if group.model is None:
        return ()
    # Ended requests are first: a later one may restart the same processor.
    commands: list[Command] = [SetRestart(each, None) for each in _done_restarts(group)]
    busy: set[str] = set()
    for response in group.responses.values():
        if response.status_code.is_terminal:
            if group.read_ms >= response.timestamp + RESPONSES_KEPT_MS:
                commands.append(Forget(response.uuid))
            continue
        busy.add(active_task_of(response.processor_id))
        commands += _ended(group, response, is_settled)
    for request in group.requests:
        if active_task_of(request.processor_id) not in busy:
            busy.add(active_task_of(request.processor_id))
            commands += _taken_up(group, request)
    return tuple(commands)


def awaits_version(group: GroupView) -> bool:
    """Return whether a requested task is elsewhere by the newest version."""
    return any(_location(group, task, group.model) != pin.location for task, pin in moving(group))


def staying(group: GroupView) -> frozenset[str]:
    """Return the tasks that a version for requests alone leaves: all but movers and copies in their way."""
    moves = dict(moving(group))
    taken = {(active_task_of(task), pin.location) for task, pin in moves.items()}
    names = places_of(group.model).keys() - moves.keys() if moves else ()
    at = {name: (active_task_of(name), _location(group, name, group.model)) for name in names}
    return frozenset(name for name, place in at.items() if place not in taken)


def unmet(group: GroupView, model: JobModel) -> tuple[Command, ...]:
    """Return commands that fail the requests that a model doesn't meet.

    The next model is without them.
    """
    commands: list[Command] = []
    for task, pin in moving(group):
        if _location(group, task, model) != pin.location:
            why = f"{task} can't be at {pin.location}: its active is there, or the grouper follows no pins"
            commands += _failed(group, group.responses[pin.uuid], why)
    return tuple(commands)


def idle_pins(group: GroupView, model: JobModel) -> tuple[SetPin, ...]:
    """Return commands that drop pins without effect: of no task, or to where no processor is."""
    tasks, places = places_of(model), {member.location for member in group.members}
    return tuple(
        SetPin(task, None)
        for task, pin in sorted(group.pins.items())
        if active_task_of(task) not in tasks or pin.location not in places
    )


def _ended(group: GroupView, response: PlacementResponse, is_settled: bool) -> Iterator[Command]:
    """Yield the end of a request that is under way, if it has come."""
    if response.destination_host == LAST_SEEN:
        yield from _restart_ended(group, response)
        return
    task, pin = response.processor_id, group.pins.get(response.processor_id)
    if pin is None or pin.uuid != response.uuid:
        yield from _failed(group, response, "its pin was deleted, or is another request's")
    elif all(member.location != pin.location for member in group.members):
        yield from _failed(group, response, f"no processor is at {pin.location} any more")
    elif _location(group, task, group.model) != pin.location:
        if _is_expired(group, response):
            yield from _failed(group, response, texts.expired(f"{task} isn't at {pin.location}"))
    elif group.barrier is not None and group.barrier.state is BarrierState.TIMED_OUT:
        why = f"version {group.version}, by which {task} is at {pin.location}, was given up"
        yield from _failed(group, response, why)
    elif group.barrier is not None and group.barrier.state is BarrierState.DONE:
        processor_id = processor_of(group.model, task)
        assert processor_id is not None  # it is at a location
        if _runs(group, processor_id, is_settled):
            details = ResponseDetails(started=processor_id, host=pin.location)
            text = texts.started(pin.location)
            yield _response(group, response, StatusCode.SUCCEEDED, text, details)


def _runs(group: GroupView, processor_id: str, is_settled: bool) -> bool:
    """Return whether a processor reports the newest version; Samza's own only join its barrier."""
    member = group.first_of(processor_id)
    if member is None or not member.holds_standbys:
        return member is not None and is_settled
    is_restarting = processor_id in group.restarts
    return group.runs_newest(member) and not is_restarting


def _restart_ended(group: GroupView, response: PlacementResponse) -> Iterator[Command]:
    member = group.first_of(response.processor_id)
    running = None if member is None else group.running.get(member.sequence)
    if member is None:
        why = f"{response.processor_id} left the group before its containers had started again"
        yield _response(group, response, StatusCode.FAILED, why)
    elif running is not None and running.restart == response.uuid:
        details = ResponseDetails(started=response.processor_id, host=member.location)
        text = texts.started(member.location)
        yield _response(group, response, StatusCode.SUCCEEDED, text, details)
    elif group.restarts.get(response.processor_id) != response.uuid:
        why = f"what told {response.processor_id} to restart was deleted"
        yield _response(group, response, StatusCode.FAILED, why)


def _done_restarts(group: GroupView) -> Iterator[str]:
    """Yield the processors with a restart that has ended by its response."""
    for processor_id, uuid in sorted(group.restarts.items()):
        response = group.responses.get(uuid)
        if response is not None and response.status_code.is_terminal:
            yield processor_id


def _taken_up(group: GroupView, request: PlacementRequest) -> Iterator[Command]:
    name, uuid, destination = request.processor_id, request.uuid, request.destination_host
    pin = group.pins.get(name)
    under_way = "the next version of the group places it"
    if pin is not None and pin.uuid == uuid:  # an earlier leader got no further
        yield _response(group, request, StatusCode.IN_PROGRESS, under_way)
    elif (refusal := _refusal(group, request)) is not None:
        yield _response(group, request, StatusCode.BAD_REQUEST, texts.bad_request(refusal))
    elif destination == LAST_SEEN:
        if group.restarts.get(name) != uuid:
            yield SetRestart(name, uuid)
        yield _response(group, request, StatusCode.IN_PROGRESS, texts.STOP_IN_PROGRESS)
    elif destination == ANY_HOST:
        if pin is not None:
            yield SetPin(name, None)
        why = f"{name} is pinned to no location; the leader places it when it next makes a version"
        yield _response(group, request, StatusCode.SUCCEEDED, why)
    else:
        target = destination if destination != STANDBY else _standby_location(group, name)
        assert target is not None  # else it was refused
        for other in _copies(group, name):
            known = group.pins.get(other)
            if known is not None and known.location == target:
                yield SetPin(other, None)
        yield SetPin(name, Pin(target, uuid))
        details = ResponseDetails(host=target)
        yield _response(group, request, StatusCode.IN_PROGRESS, under_way, details)


def _refusal(group: GroupView, request: PlacementRequest) -> str | None:
    """Return the rule that forbids it, what was seen, and the smallest change that makes it legal."""
    name, destination = request.processor_id, request.destination_host
    owner = processor_of(group.model, name)
    places = sorted({member.location for member in group.members})
    if request.deployment_id != STANDALONE_DEPLOYMENT:
        return texts.refusal(
            "a group has one deployment",
            f"deploymentId {request.deployment_id}",
            f"deploymentId {STANDALONE_DEPLOYMENT}",
        )
    if owner is None:
        member = group.first_of(name)
        if member is None:
            return texts.unknown_processor(name, _names(group))
        if not member.holds_standbys:
            seen = f"{name} is Samza's own, which nobody can tell to"
            return texts.refusal("a processor restarts its containers itself", seen, "end it")
        if destination != LAST_SEEN:
            seen = f"{name} is a processor, to be placed at {destination}"
            return texts.refusal(_WHAT, seen, f"destination {LAST_SEEN}, or one of its tasks")
        return None
    if destination == STANDBY and _standby_location(group, name) is None:
        return texts.refusal(
            "a task goes to where its standby is",
            f"{name} has none at another location",
            texts.name_one_of(places),
        )
    if destination in DESTINATION_WORDS - {ANY_HOST, STANDBY}:
        seen = f"{name} is a task, with destination {destination}"
        return texts.refusal(_WHAT, seen, f"a location, or its processor {owner}")
    if destination in {ANY_HOST, STANDBY}:
        return None
    if destination not in places:
        seen = f"no processor is at {destination}"
        return texts.refusal(
            "a task is placed where a processor is", seen, texts.name_one_of(places)
        )
    active = active_task_of(name)
    for other in _copies(group, name) if name != active else ():
        at = _location(group, other, group.model) if other == active else None
        pin = group.pins.get(other)
        if destination == (pin.location if pin is not None and pin.location in places else at):
            return texts.refusal(
                "a standby is at another location than its active and its other standbys",
                f"{other} is at {destination}",
                f"another location, or {other} elsewhere first",
            )
    return None


def _standby_location(group: GroupView, task: str) -> str | None:
    """Return the location of an active's first standby elsewhere with a present processor."""
    if task != active_task_of(task):
        return None
    own = _location(group, task, group.model)
    places = (_location(group, other, group.model) for other in _copies(group, task))
    return next((place for place in places if place not in (None, own)), None)


def _copies(group: GroupView, task: str) -> list[str]:
    """Return the other copies of a task that the newest version places, or that are pinned."""
    names = {name for each in group.containers.values() for name in each.tasks} | group.pins.keys()
    own = active_task_of(task)
    return sorted(name for name in names if name != task and active_task_of(name) == own)


def moving(group: GroupView) -> Iterator[tuple[str, Pin]]:
    """Yield the pins with a request under way."""
    for task, pin in sorted(group.pins.items()):
        response = group.responses.get(pin.uuid)
        if response is not None and not response.status_code.is_terminal:
            yield task, pin


def _location(group: GroupView, task: str, model: JobModel | None) -> str | None:
    """Return where a model places a task; None: nowhere, or at a processor that has left."""
    owner = processor_of(model, task)
    member = None if owner is None else group.first_of(owner)
    return None if member is None else member.location


def _names(group: GroupView) -> list[str]:
    """Return the names that a request may use."""
    tasks = sorted(name for each in group.containers.values() for name in each.tasks)
    return [*tasks, *sorted(member.processor_id for member in group.members)]


def _is_expired(group: GroupView, response: PlacementResponse) -> bool:
    expiry_ms = response.request_expiry
    return expiry_ms is not None and group.read_ms >= response.timestamp + expiry_ms


def _failed(group: GroupView, response: PlacementResponse, why: str) -> Iterator[Command]:
    """Yield the end of a failed request.

    The pin is dropped first, so that it has no later effect.
    """
    pin = group.pins.get(response.processor_id)
    if pin is not None and pin.uuid == response.uuid:
        yield SetPin(response.processor_id, None)
    yield _response(group, response, StatusCode.FAILED, why)


def _response(
    group: GroupView,
    asked: PlacementRequest | PlacementResponse,
    status: StatusCode,
    text: str,
    details: ResponseDetails | None = None,
) -> Respond:
    return Respond(
        PlacementResponse(
            uuid=asked.uuid,
            deployment_id=asked.deployment_id,
            processor_id=asked.processor_id,
            destination_host=asked.destination_host,
            status_code=status,
            timestamp=group.read_ms,
            request_expiry=asked.request_expiry,
            response_message=text,
            details=details,
        )
    )
