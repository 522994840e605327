"""How a `SteppedJob` answers and looks where Samza's own AM coordinates: as a real one was recorded.

It is shown by the client's own reading of the coordinator stream, so it tells no more than that
does: no execution ids, no phase, no host but those that containers reported or that took one. The
words and their order are the recorded ones (`tests/data/wire/scenarios.jsonl`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.model.naming import (
    ANY_HOST,
    FORCE_RESTART_LAST_SEEN,
    LAST_SEEN,
    group_of,
    is_standby,
)
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE, REQUEST
from samza_dagster.placement import texts

if TYPE_CHECKING:
    from tests.rig.stepped_job import SteppedJob

REPORTS_AFTER = 2
"""Looks at the job from a SUCCEEDED until the container has written its host: 2 to 6 s."""
COMMITS_AFTER = 1
"""Looks at its commits until its first one: SUCCEEDED means launched."""
_FORCED = "Successfully issued a stop container request falling back to normal restart path"


def look(world: SteppedJob) -> None:
    """Each look at the job is a while after the one before."""
    for pid, (host, looks) in list(world.unreported.items()):
        world.unreported[pid] = (host, looks - 1)
        if looks <= 0:
            del world.unreported[pid]


def go_on(world: SteppedJob, uuid: str) -> PlacementResponse | None:
    """The AM's next status of a request; None while it is another deployment's, or queued."""
    request, done = world.requests[uuid], world.answers.get(uuid, [])
    pid, asked = request.processor_id, request.destination_host
    if request.deployment_id != world.deployment or (not done and _is_queued(world, pid)):
        return None
    if not done and not _may_be_on(world, pid, asked):
        return world.answer(uuid, StatusCode.BAD_REQUEST, texts.bad_request(texts.CONSTRAINTS))
    if asked == FORCE_RESTART_LAST_SEEN:
        arrive(world, pid, world.at[pid])
        return world.answer(uuid, StatusCode.SUCCEEDED, _FORCED)
    end = world.ends[0] if world.ends else (StatusCode.SUCCEEDED, "")
    way = (texts.RESOURCES_REQUESTED, texts.STOP_IN_PROGRESS)
    if end[0] is StatusCode.BAD_REQUEST:
        way = ()
    elif end[1].startswith(texts.expired("").rstrip(": ")):
        way = way[:1]
    if len(done) < len(way):
        return world.answer(uuid, StatusCode.IN_PROGRESS, way[len(done)])
    if world.ends:
        world.ends.pop(0)
    if end[0] is not StatusCode.SUCCEEDED:
        return world.answer(uuid, *end)
    host = world.at[pid] if asked == LAST_SEEN else asked
    host = host if asked != ANY_HOST and world.host_affinity else world.any_host
    arrive(world, pid, host)
    return world.answer(uuid, StatusCode.SUCCEEDED, texts.started(host))


def arrive(world: SteppedJob, processor_id: str, host: str) -> None:
    """It was launched there. It writes its host, and commits, only later."""
    known = world.unreported.get(processor_id, (world.at[processor_id], 0))[0]
    world.unreported[processor_id] = (known, REPORTS_AFTER)
    world.starts[processor_id] = world.starts.get(processor_id, 0) + 1
    world.at[processor_id] = host
    world.last_commit[processor_id] = (
        world.commits_end
    )  # its former process's last one, at its stop
    world.commits_end += 1
    world.work_after = max(world.work_after, COMMITS_AFTER)


def replaced(world: SteppedJob, deployment: str = "run-2") -> None:
    """A new attempt of the AM: it drops requests that wait, and knows nothing of those in flight."""
    world.deployment = deployment
    for uuid in [uuid for uuid in world.requests if world.is_waiting(uuid)]:
        world.dropped.add(uuid)
        world.store.remove(PLACEMENT_NAMESPACE, f"{uuid}.{REQUEST}")


def _is_queued(world: SteppedJob, processor_id: str) -> bool:
    """As Samza orders them: an active after its standbys, a standby after its active alone."""
    busy = {
        world.requests[uuid].processor_id
        for uuid, answers in world.answers.items()
        if not answers[-1].status_code.is_terminal
        and world.requests[uuid].deployment_id == world.deployment
    }
    if is_standby(processor_id):
        return bool(busy & {processor_id, group_of(processor_id)})
    return processor_id in {group_of(one) for one in busy}


def _may_be_on(world: SteppedJob, processor_id: str, host: str) -> bool:
    group = group_of(processor_id)
    return host not in {
        at for pid, at in world.at.items() if pid != processor_id and group_of(pid) == group
    }
