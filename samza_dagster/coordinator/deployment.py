"""A deployment: the config, its JobModel and its run id, from `job.properties`.

A run id is `<ms since the epoch>-<8 hex digits>`, as Samza's planner makes it
(`app.run.id`); it is the deployment id of placement requests.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from samza_dagster.assignment import (
    TaskLocality,
    as_before,
    by_container_count,
    group,
    group_by_partition,
    grouper_of,
    replicas_from_config,
    with_standbys,
)
from samza_dagster.coordinator.limits import OWN_PREFIX, Setting
from samza_dagster.coordinator.samza_topics import own_topics, samza_topics
from samza_dagster.errors import InvalidInput
from samza_dagster.model import JobModel, TaskMode, naming

RUN_ID = "app.run.id"
CONTAINER_COUNT = Setting("job.container.count", 1, 1)
TRANSACTIONAL_RESTORE = "task.transactional.state.restore.enabled"


def required(config: Mapping[str, str], key: str, example: str) -> str:
    """Return the value of a required key, or raise `InvalidInput` that names it."""
    value = config.get(key, "").strip()
    if not value:
        raise InvalidInput(f"{key} in the job's config", seen="not set", fix=f"{key}={example}")
    return value


def input_topics(config: Mapping[str, str]) -> dict[str, str]:
    """Return topic → system, from `task.inputs=<system>.<stream>,…`.

    Raises `InvalidInput` for an entry without a system, and for one topic of two systems: the
    deployment's record knows inputs by their topics. An application with its inputs in its code is
    refused too.
    """
    topics: dict[str, str] = {}
    if (application := config.get("app.class")) and not config.get("task.inputs", "").strip():
        raise InvalidInput(
            "task.inputs in the job's config",
            seen=f"not set: {application} has its streams in its code, which Samza's planner alone reads",
            fix="task.inputs=kafka.input, with its stores and serdes in the config; or run it under "
            "Samza's own Application Master",
        )
    for entry in required(config, "task.inputs", "kafka.input").split(","):
        system, _, stream = entry.strip().partition(".")
        if not system or not stream:
            raise InvalidInput(
                "task.inputs in the job's config", seen=repr(entry), fix="<system>.<stream>,…"
            )
        topic = config.get(f"streams.{stream}.samza.physical.name", stream)
        if topics.setdefault(topic, system) != system:
            raise InvalidInput(
                "task.inputs in the job's config",
                seen=f"topic {topic} of both {topics[topic]} and {system}",
                fix="each topic of one system",
            )
    return topics


@dataclass(frozen=True)
class Deployment:
    """Everything that runs under one run id."""

    deployment_id: str
    job_name: str
    job_id: str
    job_model: JobModel

    @property
    def config(self) -> dict[str, str]:
        """Return the config that the containers get."""
        return self.job_model.config

    def grouping(self) -> str:
        """Return a value that is equal for deployments with the same partitions in each group."""
        owned = sorted(
            (processor_id, task.task_name, partition.model_dump_json())
            for processor_id, container in self.job_model.containers.items()
            if container.mode is TaskMode.ACTIVE
            for task in container.tasks.values()
            for partition in task.system_stream_partitions
        )
        return hashlib.sha256(json.dumps(owned).encode()).hexdigest()


def fingerprint(config: Mapping[str, str]) -> str:
    """Return a digest that is equal for configs under which the same containers run.

    It distinguishes a restart from a new deployment. The run id and the coordinator's own
    settings, which no container reads, don't count.
    """
    kept = sorted(
        (key, value)
        for key, value in config.items()
        if key != RUN_ID and not key.startswith(OWN_PREFIX)
    )
    return hashlib.sha256(json.dumps(kept).encode()).hexdigest()


def plan(
    config: Mapping[str, str],
    partition_counts: Mapping[str, int],
    deployment_id: str,
    *,
    changelog_partitions: Mapping[str, int] | None = None,
    ran: Mapping[str, TaskLocality] | None = None,
    is_running: bool = False,
) -> Deployment:
    """Plan the deployment of a job: one task per input partition, grouped into
    `job.container.count` containers by `task.name.grouper.factory`, each with its standbys.

    `changelog_partitions` (task → partition) are those of the deployment before: a task that it had
    keeps its own, and with it its state. `ran` is where the tasks ran then, for the grouper. In a
    deployment that `is_running` each task stays where it ran, without a grouper. Raises
    `InvalidInput` for a setting that is missing or contradicts another.
    """
    job_name = required(config, "job.name", "my-job")
    topics = input_topics(config)
    tasks = group_by_partition(
        {topic: partition_counts[topic] for topic in topics},
        system=topics,
        changelog_partitions=changelog_partitions,
    )
    hosts = {each.processor_id: each.location_id for each in (ran or {}).values()}
    ran = {t.task_name: ran[t.task_name] for t in tasks if ran and t.task_name in ran}
    ids = [str(number) for number in range(CONTAINER_COUNT.of(config))]
    containers = {each: hosts.get(each, naming.ANY_HOST) for each in ids}
    grouper = as_before if is_running else grouper_of(config, by_container_count)
    actives = group(tasks, ran, containers, grouper)
    replicas = replicas_from_config(config)
    served = {**config, RUN_ID: deployment_id, **restore_safety(config, replicas)}
    return Deployment(
        deployment_id=deployment_id,
        job_name=job_name,
        job_id=config.get("job.id", "1"),
        job_model=JobModel(
            config=served,
            containers=with_standbys(actives, replicas),
            max_change_log_stream_partitions=1 + max(t.changelog_partition for t in tasks),
        ),
    )


def restore_safety(config: Mapping[str, str], replicas: int) -> dict[str, str]:
    """Return settings that keep a warm store from being wiped at a start.

    Samza 1.8.0 restores transactionally, into a fresh directory, unless
    `job.standbytasks.replication.factor` is above 1; a job without standbys needs the
    setting spelled out, or a restart on the same host would restore everything.

    Raises `InvalidInput` where such a job requests transactional restore: its author may rely on
    state that agrees with the checkpoint, so it isn't turned off silently. With standbys Samza
    itself ignores it.
    """
    if replicas > 0:
        return {"job.standbytasks.replication.factor": str(replicas + 1)}
    value = config.get(TRANSACTIONAL_RESTORE, "false")
    if value.strip().lower() == "true":
        raise InvalidInput(
            f"{TRANSACTIONAL_RESTORE} in the config of a job without standbys: it empties the "
            "stores at each start, so every restart, move and promotion restores everything",
            seen=repr(value),
            fix=f"leave it out, or {TRANSACTIONAL_RESTORE}=false",
        )
    return {TRANSACTIONAL_RESTORE: "false"}


def require_sound(config: Mapping[str, str]) -> None:
    """Raise `InvalidInput` for a config that no input could make a deployment of.

    Called before a coordinator waits or creates a topic. The rehearsal of its first step finds
    what depends on the inputs' partitions.
    """
    required(config, "job.name", "my-job")
    input_topics(config)
    CONTAINER_COUNT.of(config)
    grouper_of(config, by_container_count)
    safety = restore_safety(config, replicas_from_config(config))
    own_topics(config)
    samza_topics({**config, **safety}, tasks=1)
