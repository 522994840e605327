"""What happened between two pictures: containers that failed or moved, requests, deployments. Pure.

An episode begins with the first sign of it, takes in later signs, and is over once the container works
again or the request has ended without touching it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, cast

from samza_dagster.coordinator.shadow import decision as rules
from samza_dagster.coordinator.shadow.decision import Decision
from samza_dagster.coordinator.shadow.picture import Asked, Picture, Report
from samza_dagster.coordinator.shadow.work import REPORTS, Downtime
from samza_dagster.model.naming import FORCE_RESTART_LAST_SEEN
from samza_dagster.placement.state import Limits

FAILURE, PLACEMENT, SILENCE = "failure", "placement", "silence"
DEPLOYMENT, REDEPLOYED, GAVE_WAY = "deployment", "redeployed", "gave-way"
KINDS = (FAILURE, PLACEMENT, SILENCE, DEPLOYMENT, REDEPLOYED, GAVE_WAY)

OPEN, OVER, UNFINISHED = "open", "over", "unfinished"

GONE, STARTED, OTHER_REPORT, SILENT = "gone", "started", "other-report", "silent"
"""Signs: the Application Master doesn't have it any more; it wrote its start; another incarnation
reports; it reports nothing."""

REDEPLOYED_WITHIN_MS = 300_000
"""A container that starts later than this after a deployment began didn't start because of it."""


@dataclass(frozen=True)
class Episode:
    """One event. Times are ms since the epoch: `noticed_ms` and `over_ms` by the shadow's clock, others their records'.

    `heard_ms` is the last record or report of the container before. `host` is where it ran, `samza_host`
    where Samza started it anew, at `started_ms`. `works_ms` is when all of its tasks worked again, and
    `downtime_s` the longest silence of one, as `measured_by` tells it. The fields from `uuid` on are a
    request's: `answer_s` is from the request to Samza's last answer. `ours` is what our coordinator would
    have done, `same_host` whether both chose one host (None: one of them chose none).
    """

    id: str
    kind: str
    deployment: str
    noticed_ms: int
    state: str = OPEN
    processor: str = ""
    role: str = ""
    signs: tuple[str, ...] = ()
    host: str = ""
    heard_ms: int | None = None
    samza_host: str = ""
    started_ms: int | None = None
    works_ms: int | None = None
    downtime_s: float | None = None
    measured_by: str = ""
    over_ms: int | None = None
    because: str = ""
    uuid: str = ""
    destination: str = ""
    asked_ms: int | None = None
    answered_ms: int | None = None
    answer_s: float | None = None
    status: str = ""
    message: str = ""
    ours: Decision | None = None
    same_host: bool | None = None
    start_seen: int = -1
    """The position of the container's newest record of a start when this began."""
    execution_seen: str = ""
    """The incarnation that reported then."""

    @property
    def is_active(self) -> bool:
        """Its tasks process: their silence is downtime."""
        return self.role == "active"

    @property
    def around_ms(self) -> int | None:
        """Return a moment at which the container was down; None where none is known."""
        if self.started_ms is not None:
            return self.started_ms
        return self.noticed_ms if GONE in self.signs else None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def episode_of(value: Mapping[str, Any]) -> Episode:
    """Read what `Episode.to_json` gave; fields of a later release are left out. Raises `TypeError`."""
    known = {f.name: value[f.name] for f in fields(Episode) if f.name in value}
    ours = known.get("ours")
    if isinstance(ours, dict):
        names = {f.name for f in fields(Decision)}
        of = cast("dict[str, Any]", ours)
        known["ours"] = Decision(**{name: it for name, it in of.items() if name in names})
    known["signs"] = tuple(known.get("signs", ()))
    return Episode(**known)


@dataclass(frozen=True)
class Watch:
    """What a shadow remembers between two pictures.

    `awaited` are the containers that haven't started since a deployment began, at `deployed_ms`.
    """

    open: Mapping[str, Episode] = field(default_factory=dict[str, Episode])
    failed_ms: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    awaited: frozenset[str] = frozenset()
    deployed_ms: int = 0
    master: Decision | None = None
    """What ours would have done at the newest deployment."""

    def to_measure(self) -> tuple[Episode, ...]:
        """Return the episodes of actives whose downtime the topics may tell by now."""
        return tuple(
            e
            for e in self.open.values()
            if e.is_active and e.around_ms is not None and _is_waited_for(e)
        )

    def unfinished(self, why: str, at_ms: int) -> tuple[Episode, ...]:
        """Return all that is open, as it stands when the shadow ends."""
        return tuple(
            replace(e, state=UNFINISHED, because=why, over_ms=at_ms) for e in self.open.values()
        )


def follow(
    watch: Watch,
    before: Picture,
    after: Picture,
    limits: Limits,
    measured: Mapping[str, Downtime] | None = None,
) -> tuple[Watch, tuple[Episode, ...]]:
    """Take a picture into account; return what is remembered, and the episodes that are new or changed.

    `measured` is the downtime of open episodes by their ids, as the topics tell it now.
    """
    was = dict(watch.open)
    watch, deployed = _deployed(watch, before, after, limits)
    watch = _requested(watch, before, after, limits)
    for pid in sorted(after.view.processors):
        signs = tuple(_signs(pid, before, after))
        if signs:
            watch = _signed(watch, pid, signs, before, after, limits)
    found = {e.id: e for e in deployed}
    now: dict[str, Episode] = {}
    for key, episode in watch.open.items():
        updated = _updated(episode, after, (measured or {}).get(key))
        if updated != was.get(key):
            found[key] = updated
        if updated.state == OPEN:
            now[key] = updated
    return replace(watch, open=now), tuple(found.values())


def _signs(pid: str, before: Picture, after: Picture) -> Iterator[str]:
    """Return what is new about a container's incarnation."""
    if before.executions is not None and after.executions is not None:
        ran, runs = before.executions.get(pid), after.executions.get(pid)
        if ran is not None and (runs is None or runs[0] != ran[0]):
            yield GONE
    start, started = after.starts.get(pid), before.starts.get(pid)
    if start is not None and (started is None or start.position > started.position):
        yield STARTED
    report, reported = after.reports.get(pid), before.reports.get(pid)
    if start is None and report is not None and reported is not None:
        ids = {report.execution_id, reported.execution_id}
        if len(ids) == 2 and "" not in ids:
            yield OTHER_REPORT
    if pid in after.silent and pid not in before.silent:
        yield SILENT


def _signed(
    watch: Watch,
    pid: str,
    signs: Sequence[str],
    before: Picture,
    after: Picture,
    limits: Limits,
) -> Watch:
    """Return the watch with a container's new signs, in its open episode or in a new one."""
    mine = (e for e in watch.open.values() if e.processor == pid and not _is_untaken(e, after))
    known = next(mine, None)
    start = after.starts.get(pid)
    if known is None:
        known = _begun(watch, pid, signs, before, after, limits)
        if known.kind == FAILURE:
            failed = (*watch.failed_ms.get(pid, ()), after.at_ms)[-limits.retry_count - 1 :]
            watch = replace(watch, failed_ms={**watch.failed_ms, pid: failed})
    elif known.kind == SILENCE and set(signs) - {SILENT}:
        ours = rules.after_failure(before, after, pid, limits, watch.failed_ms.get(pid, ()))
        known = replace(known, kind=FAILURE, ours=ours)
    known = replace(known, signs=tuple(dict.fromkeys((*known.signs, *signs))))
    if start is not None and STARTED in signs:
        known = replace(known, samza_host=start.host, started_ms=start.at_ms)
    if STARTED in signs or OTHER_REPORT in signs:
        watch = replace(watch, awaited=watch.awaited - {pid})
    return replace(watch, open={**watch.open, known.id: known})


def _is_untaken(episode: Episode, after: Picture) -> bool:
    """Return whether a request waits that nobody has acted on: what befalls its container isn't its doing.

    A forced restart is answered once its container has been stopped.
    """
    asked = after.requests.get(episode.uuid) if episode.kind == PLACEMENT else None
    return asked is not None and not asked.status and asked.destination != FORCE_RESTART_LAST_SEEN


def _begun(
    watch: Watch, pid: str, signs: Sequence[str], before: Picture, after: Picture, limits: Limits
) -> Episode:
    view = after.view
    group = view.group_of(pid)
    is_standby = view.is_standby(pid)
    in_deployment = pid in watch.awaited and after.at_ms <= watch.deployed_ms + REDEPLOYED_WITHIN_MS
    # Samza may take a standby's host for its active, which it hasn't started anywhere yet.
    gives_way = any(
        e.processor == group and e.kind != SILENCE and e.samza_host in ("", before.host_of(pid))
        for e in watch.open.values()
    )
    ours: Decision | None
    if set(signs) == {SILENT}:
        kind = SILENCE
        why = "silence alone moves nothing: the container's agent says whether its process lives"
        ours = Decision(rules.NOTHING, because=why)
    elif in_deployment:
        kind, ours = REDEPLOYED, watch.master
    elif is_standby and gives_way:
        kind, ours = GAVE_WAY, None
    else:
        kind = FAILURE
        ours = rules.after_failure(before, after, pid, limits, watch.failed_ms.get(pid, ()))
    return replace(_opened(kind, pid, before, after, f"{kind}/{pid}/{after.at_ms}"), ours=ours)


def _opened(kind: str, pid: str, before: Picture, after: Picture, key: str) -> Episode:
    start, report = before.starts.get(pid), before.reports.get(pid)
    return Episode(
        id=key,
        kind=kind,
        deployment=after.deployment,
        noticed_ms=after.at_ms,
        processor=pid,
        role="standby" if after.view.is_standby(pid) else "active",
        host=before.host_of(pid),
        heard_ms=None if report is None else report.came_ms,
        start_seen=-1 if start is None else start.position,
        execution_seen="" if report is None else report.execution_id,
    )


def _deployed(
    watch: Watch, before: Picture, after: Picture, limits: Limits
) -> tuple[Watch, tuple[Episode, ...]]:
    """Return the watch in a new deployment, and that as an episode of its own, where one has begun."""
    if before.deployment == after.deployment:
        return watch, ()
    ours = rules.after_master(before, after, limits)
    episode = Episode(
        id=f"{DEPLOYMENT}/{after.deployment}/{after.at_ms}",
        kind=DEPLOYMENT,
        deployment=after.deployment,
        noticed_ms=after.at_ms,
        state=OVER,
        over_ms=after.at_ms,
        because=f"deployment {before.deployment or 'none'} ended",
        ours=ours,
    )
    # What ended with the Application Master was seen before its successor's deployment was.
    still = {
        key: replace(e, kind=REDEPLOYED, ours=ours) if e.kind in (FAILURE, SILENCE) else e
        for key, e in watch.open.items()
    }
    awaited = frozenset(after.view.processors)
    return replace(watch, open=still, awaited=awaited, deployed_ms=after.at_ms, master=ours), (
        episode,
    )


def _requested(watch: Watch, before: Picture, after: Picture, limits: Limits) -> Watch:
    """Return the watch with the requests that are new since the picture before."""
    opened = dict(watch.open)
    for uuid, asked in after.requests.items():
        key = f"{PLACEMENT}/{uuid}"
        if uuid in before.requests or asked.deployment not in (before.deployment, after.deployment):
            continue
        if asked.processor_id in after.view.processors:
            episode = _opened(PLACEMENT, asked.processor_id, before, after, key)
        else:
            episode = Episode(key, PLACEMENT, asked.deployment, after.at_ms)
        opened[key] = replace(
            episode,
            processor=asked.processor_id,
            uuid=uuid,
            destination=asked.destination,
            asked_ms=asked.asked_ms,
            ours=rules.of_request(before, after, asked, limits),
        )
    return replace(watch, open=opened)


def _updated(episode: Episode, after: Picture, measured: Downtime | None) -> Episode:
    """Return an open episode as the newest picture shows it, over where it is."""
    asked = after.requests.get(episode.uuid) if episode.uuid else None
    if asked is not None and asked.status:
        episode = replace(
            episode,
            status=asked.status,
            message=asked.message,
            answered_ms=asked.answered_ms,
            answer_s=(asked.answered_ms - (episode.asked_ms or asked.asked_ms)) / 1000,
        )
    if episode.kind == PLACEMENT and not episode.signs:
        return _untouched(episode, asked, after)
    if episode.processor not in after.view.processors:
        return _over(episode, after, "the job has no such container any more")
    if episode.kind == SILENCE and episode.processor not in after.silent:
        return _over(episode, after, "it reports again")
    report = after.reports.get(episode.processor)
    if measured is not None and episode.is_active:
        last_ms = max(measured.last_ms or 0, episode.heard_ms or 0) or None
        episode = replace(episode, heard_ms=last_ms)
        if measured.works_ms is not None:
            return _works(episode, after, measured.works_ms, measured.seconds, measured.by)
    if report is not None and report.works and _has_begun(episode) and _is_next(report, episode):
        seconds = None
        if episode.is_active and episode.heard_ms is not None:
            seconds = max(0.0, (report.came_ms - episode.heard_ms) / 1000)
        return _works(episode, after, report.came_ms, seconds, REPORTS)
    return episode


def _untouched(episode: Episode, asked: Asked | None, after: Picture) -> Episode:
    """Return a placement whose container runs on so far: over once its end says so."""
    if episode.deployment != after.deployment:
        return _over(episode, after, f"deployment {episode.deployment} ended before its answer")
    if asked is None:
        # The Application Master's clean-up, or the next deployment's, took the answer away.
        return _over(episode, after, "its record was removed")
    return _over(episode, after, "") if asked.ended and not asked.stopped else episode


def _is_next(report: Report, episode: Episode) -> bool:
    """Return whether a report is of the incarnation that follows; an older Samza's names none."""
    if report.execution_id and episode.execution_seen:
        return report.execution_id != episode.execution_seen
    return report.came_ms > (episode.started_ms or episode.noticed_ms)


def _has_begun(episode: Episode) -> bool:
    """Return whether the incarnation that follows is known to have started."""
    return bool({STARTED, OTHER_REPORT} & set(episode.signs)) or (
        GONE in episode.signs and episode.start_seen < 0
    )


def _is_waited_for(episode: Episode) -> bool:
    """Return whether the container is to work again; of a placement only once it was stopped."""
    return bool(episode.signs) and episode.kind != SILENCE and _has_begun(episode)


def _works(
    episode: Episode, after: Picture, works_ms: int, seconds: float | None, by: str
) -> Episode:
    host = episode.samza_host or after.host_of(episode.processor)
    episode = replace(
        episode, works_ms=works_ms, downtime_s=seconds, measured_by=by, samza_host=host
    )
    if episode.kind == PLACEMENT and _is_awaited(episode, after):
        return episode
    return _over(episode, after, "")


def _is_awaited(episode: Episode, after: Picture) -> bool:
    """Return whether the request's last answer is yet to come."""
    asked = after.requests.get(episode.uuid)
    return asked is not None and not asked.ended and episode.deployment == after.deployment


def _over(episode: Episode, after: Picture, why: str) -> Episode:
    ours, host = episode.ours, episode.samza_host
    chose = ours.host if ours is not None else ""
    same = chose == host if chose and host else None
    return replace(episode, state=OVER, over_ms=after.at_ms, because=why, same_host=same)
