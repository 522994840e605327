"""The deployment to lead, and the coordinator stream's records of a new one."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Any

from samza_dagster.assignment import TaskLocality
from samza_dagster.coordinator import durable
from samza_dagster.coordinator.deployment import Deployment, fingerprint, plan
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.connection import DEFAULT_JOB_ID
from samza_dagster.metadata.coordinator_stream import Author, StreamRecord
from samza_dagster.metadata.job_metadata import JobMetadata, job_model_records
from samza_dagster.model import TaskMode
from samza_dagster.model.naming import ANY_HOST, require_owner

log = logging.getLogger(__name__)


def _new_deployment_id(now_ms: int) -> str:
    """Return a run id of the form of Samza's planner: `<ms>-<8 hex digits>`."""
    return f"{now_ms}-{secrets.token_hex(4)}"


def deployment_to_lead(
    config: Mapping[str, str],
    records: Mapping[str, Mapping[str, Any]],
    counts: Mapping[str, int],
    metadata: JobMetadata,
    *,
    now_ms: int,
) -> tuple[Deployment, durable.Record | None]:
    """Return the deployment to lead, and its record when it is a new one.

    `records` are the state topic's, `counts` the inputs' partitions now. The same config
    goes on with the deployment that runs, with the partitions that it began with; another
    config is a new deployment, which replaces it, and so is the same one after another coordinator,
    as Samza's own, has deployed the job meanwhile. Raises `Refused` when the coordinator stream
    is another job's.
    """
    require_owner(metadata.owner(), config["job.name"], config.get("job.id") or DEFAULT_JOB_ID)
    mark = fingerprint(config)
    changelog = metadata.changelog_partitions()
    found = records.get(durable.DEPLOYMENT)
    meanwhile = found is not None and metadata.deployment_id() not in (None, found["deployment_id"])
    if found is not None and found["fingerprint"] == mark and not meanwhile:
        began_with: Mapping[str, int] = found.get("partitions", counts)
        if began_with != counts:
            log.warning(
                "the inputs have %s partitions, the deployment began with %s: "
                "that changes with the next deployment",
                dict(counts),
                dict(began_with),
            )
        running = str(found["deployment_id"])
        kept: Mapping[str, list[str]] = found.get("assigned", {})
        ran = {task: TaskLocality(each) for each, tasks in kept.items() for task in tasks}
        return (
            plan(
                config,
                began_with,
                running,
                changelog_partitions=changelog,
                ran=ran,
                is_running=bool(ran),
            ),
            None,
        )
    new = _new_deployment_id(now_ms)
    if found is not None:
        log.info(
            "%s deployment %s: deployment %s replaces it",
            "another coordinator deployed the job after"
            if meanwhile
            else "another config than that of",
            found["deployment_id"],
            new,
        )
    made = plan(config, counts, new, changelog_partitions=changelog, ran=task_locality(metadata))
    assigned = {
        each: sorted(container.tasks)
        for each, container in made.job_model.containers.items()
        if container.mode is TaskMode.ACTIVE
    }
    value = {
        "deployment_id": new,
        "fingerprint": mark,
        "partitions": dict(counts),
        "assigned": assigned,
    }
    return made, (durable.DEPLOYMENT, value)


def task_locality(metadata: JobMetadata) -> dict[str, TaskLocality]:
    """Return task → its last processor and that processor's host, by the earlier deployment."""
    hosts = last_seen_hosts(metadata)
    return {
        task: TaskLocality(each, hosts.get(each, ANY_HOST))
        for task, each in metadata.task_containers().items()
    }


def announcement(
    deployment: Deployment, metadata: JobMetadata, author: Author
) -> list[StreamRecord]:
    """Return all that Samza's coordinator writes for a deployment, and deletions of older records."""
    fill = job_model_records(deployment.job_model, author, deployment_id=deployment.deployment_id)
    left_over = [
        stream.delete(stream.SET_CONTAINER_HOST, processor_id)
        for processor_id in metadata.locality().processor_localities
        if processor_id not in deployment.job_model.containers
    ]
    return [*fill, *metadata.obsolete(fill), *left_over]


def last_seen_hosts(metadata: JobMetadata) -> dict[str, str]:
    """Return processor → the host that it reported last."""
    return {
        processor_id: found.host
        for processor_id, found in metadata.locality().processor_localities.items()
        if found.host
    }
