"""Reads a job's coordinator stream record by record: one that can't be read hides no other."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from samza_dagster.client.job_view import view_of_stream
from samza_dagster.client.responses import started_on
from samza_dagster.client.views import JobView
from samza_dagster.errors import MalformedRecord
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.interface import KeptValue, MetadataStore
from samza_dagster.metadata.job_metadata import DEPLOYMENT_ID
from samza_dagster.metadata.placement_store import request_key, response_key
from samza_dagster.model import LocalityModel, ProcessorLocality
from samza_dagster.model.naming import require_owner
from samza_dagster.model.numbers import long_or_none
from samza_dagster.model.placement_messages import (
    PLACEMENT_NAMESPACE,
    REQUEST,
    RESPONSE,
    PlacementRequest,
    PlacementResponse,
    parse_request,
    parse_response,
)


@functools.lru_cache(maxsize=20_000)
def _envelope_values(raw: bytes) -> Mapping[str, str]:
    """Nearly all records are at each reading what they were at the one before."""
    return stream.decode_envelope(raw).values


class StreamReader:
    """A reading of the stream, made at the first question; `unreadable` names skipped records."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._read: Mapping[str, Mapping[str, KeptValue]] | None = None
        self._unreadable: list[str] = []
        self._chokes: dict[str, str] = {}

    @property
    def unreadable(self) -> tuple[str, ...]:
        """`<type>, key <key>: <why>` of every skipped record."""
        return tuple(self._unreadable)

    def _keys(self, namespace: str) -> Mapping[str, KeptValue]:
        # A `cached_property` of Python 3.11 has one lock for all instances: a reader whose
        # broker is away would keep every other one waiting.
        if self._read is None:
            self._read = self._store.whole()
        return self._read.get(namespace, {})

    def values(self, namespace: str, field: str) -> dict[str, str]:
        """Key → one field of the envelope's values, for the records that have it."""
        found: dict[str, str] = {}
        for key, kept in self._keys(namespace).items():
            try:
                value = _envelope_values(kept.value).get(field)
            except MalformedRecord as error:
                self._skip(namespace, key, error)
                continue
            if isinstance(value, str):
                found[key] = value
        return found

    def config(self) -> dict[str, str]:
        """The job's config, with what its coordinator added."""
        return self.values(stream.SET_CONFIG, "value")

    def changelog_partitions(self) -> dict[str, int]:
        """Return task → its changelog partition; values that aren't numbers are left out."""
        numbers = self.values(stream.SET_CHANGELOG, "Partition")
        return {t: p for t, text in numbers.items() if (p := long_or_none(text)) is not None}

    def placement(self) -> tuple[dict[str, PlacementRequest], dict[str, PlacementResponse]]:
        """Requests not yet taken and the newest response of each request, by UUID, in the stream's order."""
        requests: dict[str, PlacementRequest] = {}
        responses: dict[str, PlacementResponse] = {}
        kept = self._keys(PLACEMENT_NAMESPACE)
        for key, (raw, _) in sorted(kept.items(), key=lambda item: item[1].position):
            try:
                if key.endswith(f".{REQUEST}"):
                    request = parse_request(raw)
                    requests[request.uuid] = request
                elif key.endswith(f".{RESPONSE}"):
                    response = parse_response(raw)
                    responses[response.uuid] = response
                else:
                    self._chokes[key] = "neither a request nor a response"
            except MalformedRecord as error:
                self._skip(PLACEMENT_NAMESPACE, key, error)
                self._chokes[key] = error.seen
        return requests, responses

    def view(self, job_name: str, job_id: str, now_ms: int) -> JobView:
        """The job as this stream alone tells it now; raises `Refused` when it is another job's."""
        requests, responses = self.placement()
        config = self.config()
        require_owner(config, job_name, job_id)
        task_containers = self.values(stream.SET_TASK_CONTAINER, "containerId")
        task_modes = self.values(stream.SET_TASK_MODE, "taskMode")
        localities = self.values(stream.SET_CONTAINER_HOST, "host")
        return view_of_stream(
            job_name,
            job_id,
            config=config,
            task_containers=task_containers,
            task_modes=task_modes,
            localities=localities,
            placed=self._placed(config.get(DEPLOYMENT_ID), responses.values()),
            requests=requests,
            responses=responses,
            now_ms=now_ms,
            asked_ms=self._asked_ms(responses),
            unreadable=self.unreadable,
            unreadable_placements=self._chokes,
        )

    def locality(self, job_name: str, job_id: str) -> LocalityModel:
        """The host that each container reported last; raises `Refused` when it is another job's stream."""
        require_owner(self.config(), job_name, job_id)
        hosts = self.values(stream.SET_CONTAINER_HOST, "host")
        return LocalityModel(
            processor_localities={
                processor_id: ProcessorLocality(id=processor_id, host=host)
                for processor_id, host in sorted(hosts.items())
            }
        )

    def _asked_ms(self, uuids: Iterable[str]) -> dict[str, int]:
        """When these requests were written, by the stream's records, as far as it still has them."""
        keys = {request_key(uuid): uuid for uuid in uuids}
        written = self._store.written_ms(PLACEMENT_NAMESPACE, keys)
        return {keys[key]: at_ms for key, at_ms in written.items()}

    def _placed(
        self, deployment_id: str | None, responses: Iterable[PlacementResponse]
    ) -> dict[str, str]:
        """Processor → the host that it was started on since it reported its host last.

        By the stream's order: a container writes its host some seconds after Samza's AM says
        SUCCEEDED, and no two machines' clocks tell which was first.
        """
        reported, answered = self._keys(stream.SET_CONTAINER_HOST), self._keys(PLACEMENT_NAMESPACE)
        newest: dict[str, tuple[int, str]] = {}
        for response in responses:
            host = started_on(response)
            if host is None or response.deployment_id != deployment_id:
                continue
            pid, kept = response.processor_id, answered.get(response_key(response.uuid))
            if kept is not None and (pid not in reported or reported[pid].position < kept.position):
                newest[pid] = max(newest.get(pid, (-1, "")), (kept.position, host))
        return {pid: host for pid, (_, host) in newest.items()}

    def _skip(self, namespace: str, key: str, error: MalformedRecord) -> None:
        self._unreadable.append(f"{namespace}, key {key}: {error.seen}")
