"""Events between two pictures: containers that failed or moved, requests, deployments. Pure.

An event begins with the first sign of it, takes in later ones, and is over once the container works
again or the request has ended without touching it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from samza_dagster.coordinator.shadow import decision as rules
from samza_dagster.coordinator.shadow.decision import Decision
from samza_dagster.coordinator.shadow.downtime import Downtime
from samza_dagster.coordinator.shadow.picture import Asked, Picture
from samza_dagster.model.naming import FORCE_RESTART_LAST_SEEN
from samza_dagster.placement.state import Limits

FAILURE, PLACEMENT, DEPLOYMENT, REDEPLOYED = "failure", "placement", "deployment", "redeployed"
OPEN, OVER, UNFINISHED = "open", "over", "unfinished"
REDEPLOYED_WITHIN_MS = 300_000
"""A container that starts later than this after a deployment began didn't start because of it."""

UNANSWERED_MS = 60_000
"""A request without a record gets no answer after this time."""


@dataclass(frozen=True)
class ShadowEvent:
    """An event. Times are ms since the epoch: `noticed_ms` and `over_ms` by the shadow's clock, others their records'.

    `host` is where the container ran, `samza_host` where Samza started it anew, at `started_ms`.
    `downtime_s` is the longest silence of one of its tasks, between `last_ms` (its newest record
    before) and `works_ms` (when all of them worked again). The fields from `uuid` on are a
    request's: `answer_s` is from the request to Samza's last answer. `ours` is what our coordinator
    would have done, `same_host` whether both chose one host (None: one of them chose none).
    """

    kind: str
    noticed_ms: int
    state: str = OPEN
    processor: str = ""
    role: str = ""
    host: str = ""
    samza_host: str = ""
    started_ms: int | None = None
    last_ms: int | None = None
    works_ms: int | None = None
    downtime_s: float | None = None
    over_ms: int | None = None
    because: str = ""
    uuid: str = ""
    deployment: str = ""
    destination: str = ""
    asked_ms: int | None = None
    answer_s: float | None = None
    status: str = ""
    message: str = ""
    ours: Decision | None = None
    same_host: bool | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Watch:
    """The shadow's memory between two pictures.

    `open` are the events that aren't over: those of containers by processor, of requests by uuid.
    `awaited` are the containers that haven't started since a deployment began, at `deployed_ms`;
    `master` is what ours would have done then.
    """

    open: Mapping[str, ShadowEvent] = field(default_factory=dict[str, ShadowEvent])
    failed_ms: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    awaited: frozenset[str] = frozenset()
    deployed_ms: int = 0
    master: Decision | None = None

    def to_measure(self) -> dict[str, tuple[str, int]]:
        """Return processor and start of the actives with a downtime that the topics may show by now."""
        return {
            key: (event.processor, event.started_ms)
            for key, event in self.open.items()
            if event.role == "active" and event.started_ms is not None
        }


def follow(
    watch: Watch,
    before: Picture,
    after: Picture,
    limits: Limits,
    measured: Mapping[str, Downtime | None] | None = None,
) -> tuple[Watch, tuple[ShadowEvent, ...]]:
    """Take a picture into account; return what is remembered, and the events that are over.

    `measured` is the downtime of open events by their keys as the topics tell it now, None where
    they never will; what couldn't be read isn't in it.
    """
    over: list[ShadowEvent] = []
    if before.deployment != after.deployment:
        watch, deployed = _deploy(watch, before, after, limits)
        over.append(deployed)
    watch = replace(watch, open={**watch.open, **dict(_requested(watch, before, after, limits))})
    for pid in sorted(after.view.processors):
        watch = _look_at(watch, pid, before, after, limits)
    still: dict[str, ShadowEvent] = {}
    for key, event in watch.open.items():
        updated = _update(event, after, key, measured or {})
        if updated.state == OPEN:
            still[key] = updated
        else:
            over.append(updated)
    return replace(watch, open=still), tuple(over)


def _deploy(
    watch: Watch, before: Picture, after: Picture, limits: Limits
) -> tuple[Watch, ShadowEvent]:
    """Return the watch in a new deployment, and that as an event of its own."""
    ours = rules.after_master(before, after, limits)
    event = ShadowEvent(
        DEPLOYMENT, after.at_ms, OVER, over_ms=after.at_ms, deployment=after.deployment,
        because=f"deployment {before.deployment or 'none'} ended", ours=ours,
    )  # fmt: skip
    # What ended with the Application Master was seen before its successor's deployment was.
    still = {
        key: replace(e, kind=REDEPLOYED, ours=ours) if e.kind == FAILURE else e
        for key, e in watch.open.items()
    }
    awaited = frozenset(after.view.processors)
    watch = replace(watch, open=still, awaited=awaited, deployed_ms=after.at_ms, master=ours)
    return watch, event


def _requested(
    watch: Watch, before: Picture, after: Picture, limits: Limits
) -> Iterator[tuple[str, ShadowEvent]]:
    """Yield the requests that are new since the picture before."""
    for uuid, asked in after.requests.items():
        if uuid in before.requests or uuid in watch.open:
            continue
        if asked.deployment not in (before.deployment, after.deployment):
            continue
        event = _begin(PLACEMENT, asked.processor_id, before, after)
        yield (
            uuid,
            replace(
                event,
                uuid=uuid,
                deployment=asked.deployment,
                destination=asked.destination,
                asked_ms=asked.asked_ms,
                ours=rules.of_request(before, after, asked, limits),
            ),
        )


def _begin(kind: str, pid: str, before: Picture, after: Picture) -> ShadowEvent:
    role = ""
    if pid in after.view.processors:
        role = "standby" if after.view.is_standby(pid) else "active"
    return ShadowEvent(
        kind, after.at_ms, processor=pid, role=role, host=before.host_of(pid), deployment=after.deployment
    )  # fmt: skip


def _look_at(watch: Watch, pid: str, before: Picture, after: Picture, limits: Limits) -> Watch:
    """Return the watch with what is new about a container, in its open event or in a new one."""
    start, started = after.starts.get(pid), before.starts.get(pid)
    is_new = start is not None and (started is None or start.position > started.position)
    if not is_new and not _is_gone(pid, before, after):
        return watch
    mine = (
        key for key, e in watch.open.items() if e.processor == pid and not _is_untaken(e, after)
    )
    key = next(mine, pid)
    event = watch.open.get(key)
    if event is None:
        in_deployment = after.at_ms <= watch.deployed_ms + REDEPLOYED_WITHIN_MS
        if pid in watch.awaited and in_deployment:
            event = replace(_begin(REDEPLOYED, pid, before, after), ours=watch.master)
        elif _gives_way(watch, pid, before, after):
            return watch
        else:
            failed_ms = watch.failed_ms.get(pid, ())
            ours = rules.after_failure(before, after, pid, limits, failed_ms)
            event = replace(_begin(FAILURE, pid, before, after), ours=ours)
            failed_ms = (*failed_ms, after.at_ms)[-limits.retry_count - 1 :]
            watch = replace(watch, failed_ms={**watch.failed_ms, pid: failed_ms})
    if start is not None and is_new:
        event = replace(event, samza_host=start.host, started_ms=start.at_ms)
        watch = replace(watch, awaited=watch.awaited - {pid})
    return replace(watch, open={**watch.open, key: event})


def _is_gone(pid: str, before: Picture, after: Picture) -> bool:
    """Return whether YARN had a container of it, and has that one no more."""
    if before.executions is None or after.executions is None:
        return False
    ran, runs = before.executions.get(pid), after.executions.get(pid)
    return ran is not None and (runs is None or runs[0] != ran[0])


def _gives_way(watch: Watch, pid: str, before: Picture, after: Picture) -> bool:
    """Return whether Samza takes, or may have taken, a standby's host for its active: that event has it."""
    group, host = after.view.group_of(pid), before.host_of(pid)
    return after.view.is_standby(pid) and any(
        e.processor == group and e.samza_host in ("", host) for e in watch.open.values()
    )


def _is_untaken(event: ShadowEvent, after: Picture) -> bool:
    """Return whether a request waits on which nobody has acted: what befalls its container isn't its doing.

    A forced restart is answered once its container has been stopped.
    """
    asked = after.requests.get(event.uuid)
    return asked is not None and not asked.status and asked.destination != FORCE_RESTART_LAST_SEEN


def _update(
    event: ShadowEvent, after: Picture, key: str, measured: Mapping[str, Downtime | None]
) -> ShadowEvent:
    """Return an open event as the newest picture shows it, over where it is."""
    asked = after.requests.get(event.uuid)
    if asked is not None and asked.status:
        answer_s = (asked.answered_ms - (event.asked_ms or asked.asked_ms)) / 1000
        event = replace(event, status=asked.status, message=asked.message, answer_s=answer_s)
    if event.kind == PLACEMENT and event.started_ms is None:
        return _untouched(event, asked, after)
    if event.processor not in after.view.processors:
        return _end(event, after, "the job has no such container any more")
    if event.started_ms is None:
        return event
    why = ""
    if event.role == "active":
        if key not in measured:
            return event
        known = measured[key]
        if known is None:
            why = "its changelogs don't tell the downtime: it has none, they were idle, or clocks disagree"
        elif known.works_ms is None:
            return event
        else:
            event = replace(
                event, last_ms=known.last_ms, works_ms=known.works_ms, downtime_s=known.seconds
            )
    answer_is_due = asked is not None and not asked.ended and event.deployment == after.deployment
    return event if answer_is_due else _end(event, after, why)


def _untouched(event: ShadowEvent, asked: Asked | None, after: Picture) -> ShadowEvent:
    """Return a placement with a container that runs on so far: over once the request has ended."""
    if event.deployment != after.deployment:
        return _end(event, after, f"deployment {event.deployment} ended before its answer")
    if asked is None:
        # The Application Master removes a request some time before it answers, and answers much later.
        is_late = after.at_ms - event.noticed_ms > UNANSWERED_MS
        return _end(event, after, "its record was removed") if event.status or is_late else event
    return _end(event, after, "") if asked.ended and not asked.stopped else event


def _end(event: ShadowEvent, after: Picture, why: str) -> ShadowEvent:
    chose = "" if event.ours is None else event.ours.host
    same = chose == event.samza_host if chose and event.samza_host else None
    return replace(event, state=OVER, over_ms=after.at_ms, because=why, same_host=same)
