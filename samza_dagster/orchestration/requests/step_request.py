"""Asking a coordinator once, and following the answer.

A step's request has a uuid derived from the root run, the step and an attempt. So a killed worker, a retry
and a re-execution all find the request that was made. The attempt grows only after a terminal failure of
the former was read, or its end when the config was changed since.
"""

from __future__ import annotations

import uuid as uuid_module
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from samza_dagster.client import PlacementClient
from samza_dagster.client.requests import Request
from samza_dagster.client.responses import details_of
from samza_dagster.errors import Refused, SamzaDagsterError
from samza_dagster.model import PlacementRequest, PlacementResponse, StatusCode
from samza_dagster.orchestration.plans.move import NEW_RUN
from samza_dagster.orchestration.plans.units import Kind, UnitStep

NAMESPACE = uuid_module.UUID("6f0d4c1e-8f6a-5b0e-9a53-7d2b8b3c5d11")
MOST_ATTEMPTS = 1_000
OnRecord = PlacementResponse | PlacementRequest | Request
COMMIT = "commit"
RELEASE = "release"
ANSWER_S = 10.0

QUEUED, RESERVING, HELD = "QUEUED", "RESERVING", "HELD"
STOPPING, STARTING, ENDED = "STOPPING", "STARTING", "ENDED"
OF_STANDBY = ("RESERVING_STANDBY", "STOPPING_STANDBY")
ORDER = ("", QUEUED, *OF_STANDBY, RESERVING, HELD, STOPPING, STARTING, ENDED)
"""Stages of an action; empty before any is known."""


def request_uuid(root_run_id: str, step: str, attempt: int) -> str:
    """The uuid of a step's request; the same for every run that shares the root."""
    return str(uuid_module.uuid5(NAMESPACE, f"{root_run_id}/{step}/{attempt}"))


def is_of_step(uuid: str, root_run_id: str, step: str) -> bool:
    """Return whether it is the uuid of any attempt of a step."""
    return any(uuid == request_uuid(root_run_id, step, n) for n in range(MOST_ATTEMPTS))


@dataclass(frozen=True)
class Moment:
    """A status as it was read; `at_ms` by the coordinator's clock, ms since the epoch.

    `since_request_ms` counts from the request's own time; for a request that an earlier
    run made and that was answered since, from the first status seen. `stage` is where the
    action stood.
    """

    step: str
    status: str
    message: str
    at_ms: int
    since_request_ms: int
    stage: str = ""


@dataclass(frozen=True)
class StepRequest:
    """The latest known state of a step's request; each op hands it to the next.

    The uuid derives from the name of its `step` and the attempt. `destination` is the requested one,
    `deployment` the job's at that time; None: it isn't written yet. `hold`: it stops nothing before its
    commit. By the run's own clock, `asked_ms` is when this run wrote it, and `since_ms` when the run
    saw that it succeeded. `answered_ms` is the time of the answer that it was found with.
    `has_stopped`: a container was stopped for it. `started` is the processor that was started for it,
    on `host`.
    """

    step: str
    uuid: str
    attempt: int
    status: str = ""
    """The newest that was read; empty: it isn't known that it was asked."""
    message: str = ""
    destination: str | None = None
    timeline: tuple[Moment, ...] = ()
    hold: bool = False
    asked_ms: int | None = None
    answered_ms: int | None = None
    deployment: str = ""
    since_ms: int | None = None
    has_stopped: bool = False
    started: str | None = None
    host: str | None = None

    @classmethod
    def found(cls, step: str, uuid: str, attempt: int, latest: OnRecord) -> StepRequest:
        """Return a request as it is on record."""
        of, to = latest.deployment_id, latest.destination_host
        made = cls(step, uuid, attempt, destination=to, deployment=of)
        if not isinstance(latest, PlacementResponse):
            return made
        details = details_of(latest)
        return replace(
            made,
            status=latest.status_code.value,
            message=latest.response_message,
            answered_ms=latest.timestamp,
            has_stopped=bool(details.stopped),
            started=details.started,
            host=details.host,
        )

    def seen(self, response: PlacementResponse) -> StepRequest:
        """The same with one more status; itself when that was read before."""
        status, message = response.status_code.value, response.response_message
        at_ms = response.timestamp
        if any((m.status, m.message, m.at_ms) == (status, message, at_ms) for m in self.timeline):
            return self
        began = self.timeline[0].at_ms if self.timeline else at_ms
        began = began if self.asked_ms is None else self.asked_ms
        stage = stage_of(response, self.timeline)
        moment = Moment(self.step, status, message, at_ms, max(0, at_ms - began), stage)
        details = details_of(response)
        return replace(
            self,
            status=status,
            message=message,
            destination=response.destination_host,
            timeline=(*self.timeline, moment),
            has_stopped=self.has_stopped or bool(details.stopped),
            started=details.started,
            host=details.host,
        )

    @property
    def said(self) -> str:
        """The newest status that was read, for a person."""
        return f"{self.status}: {self.message}" if self.timeline else "not answered yet"

    @property
    def succeeded(self) -> bool:
        """The coordinator says SUCCEEDED."""
        return self.status == StatusCode.SUCCEEDED

    @property
    def ended(self) -> bool:
        """No later status follows."""
        return self.succeeded or self.status in (StatusCode.BAD_REQUEST, StatusCode.FAILED)

    @property
    def stage(self) -> str:
        """Where the action stood when it was looked at last."""
        if self.ended:
            return ENDED
        return self.timeline[-1].stage if self.timeline else ""

    def has_reached(self, stage: str) -> bool:
        """Return whether the action is at this stage or beyond."""
        return ORDER.index(self.stage) >= ORDER.index(stage)

    def uuid_of(self, verb: str, root_run_id: str) -> str:
        """The uuid of its commit, or of its release."""
        head, _, rest = self.step.partition("/")
        step = f"{head}-{verb}/{rest}" if rest else verb
        return request_uuid(root_run_id, step, self.attempt)


def stage_named(stage: str | None) -> str:
    """Return the member of `ORDER` for the coordinator's name of a stage; empty for another."""
    known = (stage or "").upper().replace("-", "_")
    return known if known in ORDER else ""


def on_record(client: PlacementClient, uuid: str) -> OnRecord | None:
    """Return the newest that is on record of a request: its answer, else itself; None if it was never asked.

    Raises `Refused` when it has ended and our coordinator has cleaned up its answer.
    """
    latest = client.response(uuid) or client.request(uuid) or client.own_request(uuid)
    if latest is not None or uuid not in client.remembered():
        return latest
    if response := client.response(uuid):  # it was taken and answered between the reads
        return response
    raise Refused(
        "a re-execution while the answers to its earlier runs are on record",
        seen=f"request {uuid} has ended, and its answer is cleaned up (samza.dagster.clean.after.ms)",
        fix=NEW_RUN,
    )


def has_failed(client: PlacementClient, latest: OnRecord) -> bool:
    """Return whether a request ended badly, or has no end and none to come.

    Samza's AM answers nothing once its deployment has ended, or the job is dead.
    """
    if isinstance(latest, PlacementResponse) and latest.status_code.is_terminal:
        return latest.status_code is not StatusCode.SUCCEEDED
    view = client.view()
    return not view.capabilities.answers_late and bool(view.why_over(latest.deployment_id))


def standing(
    client: PlacementClient,
    root_run_id: str,
    step: str,
    processor_id: str,
    *,
    first: int = 0,
    fits: Callable[[str], bool] = lambda _: True,
    asked: Collection[str] | None = None,
) -> StepRequest:
    """Return the newest attempt of a step, from `first` on, that didn't fail; else the next one.

    A request to a deployment that is over has failed, since it gets no answer. A request for another
    processor, or one that ended for another destination, comes from a config before a re-execution: it
    is skipped. `asked`, if given, has all earlier requests; what isn't in it costs no read. Raises
    `Refused` while one for another destination is in flight, and as `on_record` does.
    """
    attempt, found = first, None
    while True:
        uuid = request_uuid(root_run_id, step, attempt)
        latest = on_record(client, uuid) if asked is None or uuid in asked else None
        if latest is None:
            break
        if latest.processor_id == processor_id and not has_failed(client, latest):
            found = StepRequest.found(step, uuid, attempt, latest)
        attempt += 1
    if found is not None and fits(str(found.destination)):
        return found
    if found is not None and not found.ended:
        raise Refused(
            f"{step} of {processor_id} to another destination: nothing else of this chain under way",
            seen=f"request {found.uuid} of an earlier run (→ {found.destination}) is under way",
            fix=f"the same again once it has ended, or destination {found.destination} to follow it",
        )
    return StepRequest(step, uuid, attempt)


def last_success(client: PlacementClient, root_run_id: str, step: str) -> PlacementResponse | None:
    """The SUCCEEDED of a step's newest attempt that has one."""
    found: PlacementResponse | None = None
    for attempt in range(MOST_ATTEMPTS):
        response = client.response(request_uuid(root_run_id, step, attempt))
        if response is None:
            break
        found = response if response.status_code is StatusCode.SUCCEEDED else found
    return found


def stage_of(response: PlacementResponse, earlier: Sequence[Moment]) -> str:
    """Return the stage of the action by this status, or the stage before if it names none."""
    if response.status_code.is_terminal:
        return ENDED
    known = earlier[-1].stage if earlier else QUEUED
    return stage_named(details_of(response).stage) or known


def started_standby(response: PlacementResponse | None) -> str | None:
    """The standby that a response says was started for an active; None for any other response."""
    if response is None or response.status_code is not StatusCode.SUCCEEDED:
        return None
    started = details_of(response).started
    return started if started != response.processor_id else None


def newest_starts(client: PlacementClient) -> dict[str, PlacementResponse]:
    """Standby → the newest answer on record that says it was started.

    A standby's id is free again once it is removed, so an older answer may tell of another one.
    """
    found: dict[str, PlacementResponse] = {}
    for response in client.history():
        standby = started_standby(response)
        if standby is not None:
            found[standby] = response
    return found


def started_anew(client: PlacementClient, root_run_id: str, step: str, standby: str) -> str:
    """The request that has started a standby of this id for somebody else since; empty for none."""
    newest = newest_starts(client).get(standby)
    if newest is None or is_of_step(newest.uuid, root_run_id, step):
        return ""
    return newest.uuid


def write(
    client: PlacementClient,
    step: UnitStep,
    processor_id: str,
    *,
    uuid: str,
    expiry_s: float | None,
    hold: bool,
) -> PlacementRequest | Request:
    """Write a step's request; one of this uuid that was written before is left as it is.

    `hold`: nothing is stopped before its commit. Raises what the client raises.
    """
    kind, destination = step.kind, step.destination
    if kind is Kind.FAIL_OVER:
        return client.fail_over(processor_id, uuid=uuid, execution_id=step.execution_id or None)
    if kind is Kind.STOP_STANDBY:
        return client.stop_standby(processor_id, uuid=uuid)
    if kind is Kind.START_STANDBY:
        return client.start_standby(processor_id, destination, request_expiry_s=expiry_s, uuid=uuid)
    if hold:
        return client.reserve(processor_id, destination, request_expiry_s=expiry_s, uuid=uuid)
    # The plan has looked at the host: under Samza's AM one that its last container has left
    # since, as a standby that made room, is known no more.
    return client.place(
        processor_id,
        destination,
        request_expiry_s=expiry_s,
        uuid=uuid,
        beyond_budget=step.beyond_budget,
        allow_unknown_host=True,
    )


def release(client: PlacementClient, reservation: str, uuid: str) -> str:
    """Releases a reservation that isn't committed; returns what became of it, for a log.

    Raises nothing of ours: what can't be released ends by itself when its time is up.
    """
    try:
        client.release(reservation, uuid=uuid)
        answer = client.wait(reservation, timeout_s=ANSWER_S)
    except SamzaDagsterError as error:
        return (
            f"reservation {reservation} isn't released: {error}; uncommitted, it expires by itself"
        )
    return f"reservation {reservation}: {answer.status_code.value}: {answer.response_message}"


def cancel(client: PlacementClient, root_run_id: str, request: str) -> str:
    """End a request that has stopped and started nothing yet; return what became of it, for a log.

    If the coordinator takes no cancel, the request continues: Samza's protocol has none, and a
    container that is down comes back only that way. Raises nothing of ours.
    """
    goes_on = "the coordinator goes on with it: re-execute this run from failure to follow"
    try:
        if not client.view().capabilities.has_own_requests:
            return goes_on
        client.cancel(request, uuid=request_uuid(root_run_id, f"cancel/{request}", 0))
        answer = client.wait(request, timeout_s=ANSWER_S)
    except SamzaDagsterError as error:
        return f"{goes_on} ({error})"
    return (
        f"request {request} is ended: {answer.status_code.value}: {answer.response_message};"
        " re-execute this run from failure to ask anew"
    )
