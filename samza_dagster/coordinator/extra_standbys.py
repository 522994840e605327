"""Standbys that were spun up on request: the deployment's JobModel doesn't plan them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from samza_dagster.assignment import standby_container
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import Author, StreamRecord
from samza_dagster.metadata.job_metadata import job_model_records
from samza_dagster.model import ContainerModel, JobModel
from samza_dagster.placement.state import Group


def extra_standbys(groups: Iterable[Group]) -> frozenset[str]:
    """Return the ids of standbys that a request spun up and none has removed."""
    return frozenset(
        processor.processor_id
        for group in groups
        for processor in group.processors.values()
        if processor.extra and processor.wanted
    )


def with_extras(planned: JobModel, extras: Iterable[str]) -> JobModel:
    """Return the JobModel with a container for each extra standby of an active that it has."""
    added = {
        processor_id: container
        for processor_id in sorted(extras)
        if processor_id not in planned.containers
        and (container := _container(planned, processor_id)) is not None
    }
    if not added:
        return planned
    return planned.model_copy(update={"containers": {**planned.containers, **added}})


def assignment_records(
    planned: JobModel, before: frozenset[str], after: frozenset[str], author: Author
) -> tuple[StreamRecord, ...]:
    """Return the records that the coordinator stream needs when the extra standbys change.

    Task assignments, modes, changelog and input mappings as Samza's own coordinator
    writes them for a JobModel that has these containers, and deletions of what is gone.
    Records of the plan itself are never deleted.
    """
    if before == after:
        return ()
    actives = sorted({_parts(processor_id)[0] for processor_id in before ^ after})
    old = {(r.namespace, r.key): r for r in _records(planned, before, actives, author)}
    new = {(r.namespace, r.key): r for r in _records(planned, after, actives, author)}
    changed = [record for place, record in new.items() if old.get(place) != record]
    gone = [stream.delete(namespace, key) for namespace, key in old if (namespace, key) not in new]
    return (*changed, *gone)


def _records(
    planned: JobModel, extras: frozenset[str], actives: list[str], author: Author
) -> list[StreamRecord]:
    model = with_extras(planned, extras)
    groups = model.groups()
    of_groups = {pid: model.containers[pid] for active in actives for pid in groups.get(active, ())}
    records = job_model_records(JobModel(config={}, containers=of_groups), author, deployment_id="")
    return [record for record in records if record.namespace != stream.SET_CONFIG]


def _container(planned: JobModel, processor_id: str) -> ContainerModel | None:
    active_id, replica = _parts(processor_id)
    active = planned.containers.get(active_id)
    if active is None or not (replica.isascii() and replica.isdigit()):
        return None
    return standby_container(active, int(replica))


def _parts(standby_id: str) -> tuple[str, str]:
    """Return active and replica of an id that `standby_container_id` made."""
    active_id, _, replica = standby_id.rpartition("-")
    return active_id, replica
