"""A leader's view of the coordinator stream: its owner, locality, changelogs, obsolete records.

Reads the records of any Samza coordinator. `job_model_records` returns what Samza's own
coordinator writes for a JobModel (`JobModelHelper`, `CoordinatorStreamUtil`), for one
transaction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

from samza_dagster.errors import MalformedRecord
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import Author, StreamRecord
from samza_dagster.metadata.interface import MetadataStore
from samza_dagster.model import (
    JobModel,
    LocalityModel,
    ProcessorLocality,
    SystemStreamPartition,
)

DEPLOYMENT_ID = "app.run.id"
TRACKING_URL = "yarn.am.tracking.url"


class JobMetadata:
    """Reads a job's coordinator stream through any `MetadataStore`.

    `locality` and `changelog_partitions` raise `MalformedRecord` that names namespace, key and
    field.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def owner(self) -> dict[str, str]:
        """Return the readable ones of `job.name` and `job.id`."""
        return self._settings("job.name", "job.id")

    def deployment_id(self) -> str | None:
        """Return the id of the last deployment; None when it is absent or unreadable."""
        return self._settings(DEPLOYMENT_ID).get(DEPLOYMENT_ID)

    def _settings(self, *keys: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for key in keys:
            raw = self._store.get(stream.SET_CONFIG, key)
            with contextlib.suppress(MalformedRecord):  # the next leader writes it anew
                value = stream.decode_envelope(raw).values.get("value") if raw else None
                found |= {} if value is None else {key: value}
        return found

    def locality(self) -> LocalityModel:
        """Return the host that each processor last reported."""
        found: dict[str, ProcessorLocality] = {}
        for processor_id, values in self._envelopes(stream.SET_CONTAINER_HOST).items():
            found[processor_id] = ProcessorLocality(
                id=processor_id,
                host=values.get("host", ""),
                jmx_url=values.get("jmx-url", ""),
                jmx_tunneling_url=values.get("jmx-tunneling-url", ""),
            )
        return LocalityModel(processor_localities=found)

    def changelog_partitions(self) -> dict[str, int]:
        """Return task name → partition of its changelogs."""
        found: dict[str, int] = {}
        for task, values in self._envelopes(stream.SET_CHANGELOG).items():
            text = values.get("Partition")
            try:
                found |= {} if text is None else {task: int(text)}
            except ValueError as error:
                seen = f"field values.Partition: {text!r:.80}"
                raise _named(stream.SET_CHANGELOG, task, MalformedRecord("", seen=seen)) from error
        return found

    def task_containers(self) -> dict[str, str]:
        """Return task name → its processor in the last deployment, actives and standbys."""
        return {
            task: values["containerId"]
            for task, values in self._envelopes(stream.SET_TASK_CONTAINER).items()
            if values.get("containerId")
        }

    def obsolete(self, records: Iterable[StreamRecord]) -> tuple[StreamRecord, ...]:
        """Return deletions of the settings, tasks and partitions that `records` leave out.

        Covers the namespaces that `job_model_records` writes. The Application Master's URL stays.
        """
        kept = {(record.namespace, record.key) for record in records}
        kept.add((stream.SET_CONFIG, TRACKING_URL))
        return tuple(
            stream.delete(namespace, key)
            for namespace in _MODEL_NAMESPACES
            for key in sorted(self._store.all(namespace))
            if (namespace, key) not in kept
        )

    def _envelopes(self, namespace: str) -> dict[str, Mapping[str, str]]:
        found: dict[str, Mapping[str, str]] = {}
        for key, value in self._store.all(namespace).items():
            try:
                found[key] = stream.decode_envelope(value).values
            except MalformedRecord as error:
                raise _named(namespace, key, error) from error
        return found


_MODEL_NAMESPACES = (
    stream.SET_CONFIG,
    stream.SET_TASK_CONTAINER,
    stream.SET_TASK_MODE,
    stream.SET_TASK_PARTITION,
    stream.SET_CHANGELOG,
)


def _named(namespace: str, key: str, error: MalformedRecord) -> MalformedRecord:
    return MalformedRecord(
        "read the coordinator stream", seen=f"{namespace}, key {key}: {error.seen}", fix=error.fix
    )


def job_model_records(
    job_model: JobModel, author: Author, *, deployment_id: str
) -> tuple[StreamRecord, ...]:
    """Return the records that Samza writes when it deploys this JobModel.

    They are the config (with `app.run.id`), then per task its processor and mode, per input
    partition its tasks, per task its changelog partition. Locality is missing: containers report
    it. `author.source` is in all of them except the config's.
    """
    runner = Author(author.host, author.username, author.timestamp_ms, stream.SOURCE_JOB_RUNNER)
    config = {**job_model.config, DEPLOYMENT_ID: deployment_id}
    records = [stream.set_config(runner, key, value) for key, value in config.items()]
    readers: dict[SystemStreamPartition, list[str]] = {}
    changelog: list[StreamRecord] = []
    for processor_id, container in job_model.containers.items():
        for name, task in container.tasks.items():
            records.append(stream.set_task_container(author, name, processor_id))
            records.append(stream.set_task_mode(author, name, task.task_mode))
            changelog.append(stream.set_changelog(author, name, task.changelog_partition))
            for partition in task.system_stream_partitions:
                readers.setdefault(partition, []).append(name)
    records += [
        stream.set_task_partition(author, partition, names) for partition, names in readers.items()
    ]
    return (*records, *changelog)
