"""Asking a coordinator once, and following the answer.

A step's request has a uuid derived from the root run, the step and an attempt, so a
killed worker, a retry and a re-execution all find the request that was made. The
attempt grows only after a terminal failure of the former was read.
"""

from __future__ import annotations

import time
import uuid as uuid_module
from collections.abc import Callable
from dataclasses import dataclass

from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.orchestration.ports import Placement

NAMESPACE = uuid_module.UUID("6f0d4c1e-8f6a-5b0e-9a53-7d2b8b3c5d11")
MOST_ATTEMPTS = 1_000


def request_uuid(root_run_id: str, step: str, attempt: int) -> str:
    """The uuid of a step's request; the same for every run that shares the root."""
    return str(uuid_module.uuid5(NAMESPACE, f"{root_run_id}/{step}/{attempt}"))


@dataclass(frozen=True)
class Asked:
    """The request that a step stands at: its uuid, its attempt, what was answered so far.

    `destination` is the one that it was written with; None when it is still to be written.
    """

    uuid: str
    attempt: int
    response: PlacementResponse | None
    destination: str | None = None

    @property
    def succeeded(self) -> bool:
        """Its outcome is SUCCEEDED: there is nothing to ask."""
        return self.response is not None and self.response.status_code is StatusCode.SUCCEEDED


@dataclass(frozen=True)
class Moment:
    """One status as it was read; `at_ms` by the coordinator's clock, ms since the epoch.

    `since_request_ms` counts from the request's own time; for a request that an earlier
    run made and that was answered since, from the first status seen.
    """

    step: str
    uuid: str
    status: str
    message: str
    at_ms: int
    since_request_ms: int


@dataclass(frozen=True)
class Outcome:
    """How a step's request ended: `destination` is the host that was asked for."""

    step: str
    uuid: str
    attempt: int
    status: str
    message: str
    destination: str
    seconds: float
    timeline: tuple[Moment, ...] = ()
    asked: bool = True

    @property
    def succeeded(self) -> bool:
        """The coordinator says SUCCEEDED."""
        return self.status == StatusCode.SUCCEEDED

    @property
    def refused(self) -> bool:
        """The coordinator changed nothing: BAD_REQUEST."""
        return self.status == StatusCode.BAD_REQUEST


def standing(client: Placement, root_run_id: str, step: str, processor_id: str) -> Asked:
    """The first attempt of a step that hasn't failed.

    A request for another processor stands for a run whose config was changed on
    re-execution: the next attempt is this one's.
    """
    for attempt in range(MOST_ATTEMPTS):
        uuid = request_uuid(root_run_id, step, attempt)
        response = client.response(uuid)
        if response is None:
            request = client.request(uuid)
            if request is None:
                return Asked(uuid, attempt, None)
            if request.processor_id == processor_id:
                return Asked(uuid, attempt, None, request.destination_host)
            continue
        ended_badly = response.status_code in (StatusCode.BAD_REQUEST, StatusCode.FAILED)
        if not ended_badly and response.processor_id == processor_id:
            return Asked(uuid, attempt, response, response.destination_host)
    raise AssertionError(f"{MOST_ATTEMPTS} failed attempts of {step} in one run")


def follow(
    client: Placement,
    asked: Asked,
    *,
    step: str,
    processor_id: str,
    destination: str,
    request_expiry_s: float,
    timeout_s: float,
    on_moment: Callable[[Moment], None],
    monotonic: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Asks, unless it was asked before, and follows to the terminal response.

    `destination` counts only for a request not answered yet. Raises
    `DeadlineExceeded` after `timeout_s`; the coordinator goes on then.
    """
    started = monotonic()
    moments: list[Moment] = []
    asked_ms: int | None = None

    def see(response: PlacementResponse) -> None:
        first = moments[0].at_ms if moments else response.timestamp
        moment = Moment(
            step=step,
            uuid=asked.uuid,
            status=response.status_code.value,
            message=response.response_message,
            at_ms=response.timestamp,
            since_request_ms=max(0, response.timestamp - (asked_ms or first)),
        )
        if moments and (moments[-1].status, moments[-1].message) == (moment.status, moment.message):
            return
        moments.append(moment)
        on_moment(moment)

    last = asked.response
    if last is None:
        request = client.place(
            processor_id, destination, request_expiry_s=request_expiry_s, uuid=asked.uuid
        )
        asked_ms = request.timestamp
    else:
        see(last)
    if last is None or not asked.succeeded:
        last = client.wait(asked.uuid, timeout_s=timeout_s, on_response=see)
        see(last)
    return Outcome(
        step=step,
        uuid=asked.uuid,
        attempt=asked.attempt,
        status=last.status_code.value,
        message=last.response_message,
        destination=last.destination_host,
        seconds=monotonic() - started,
        timeline=tuple(moments),
        asked=asked.destination is None,
    )
