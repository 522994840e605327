"""The leader's housekeeping: its transactions delete finished messages."""

from __future__ import annotations

from collections.abc import Sequence

from samza_dagster.coordinator.durable import Record
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.cleanup import Where, finished_or_foreign
from samza_dagster.metadata.coordinator_stream import StreamRecord
from samza_dagster.metadata.interface import MetadataStore
from samza_dagster.metadata.own_requests import read_mail
from samza_dagster.metadata.placement_store import (
    ContainerPlacementMetadataStore,
    request_key,
    response_key,
)
from samza_dagster.metadata.state_topic import StateReader
from samza_dagster.model import PlacementResponse
from samza_dagster.model.own_requests import REQUEST_PREFIX, RESPONSE_PREFIX
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE
from samza_dagster.placement.reading import in_flight
from samza_dagster.placement.state import JobState

_MOST_AT_ONCE = 5_000


class FinishedMessages:
    """A finder of finished messages in both topics, which it reads at each call.

    The age of an earlier leader's answer is its age by that leader's clock when this term first looked,
    plus the time since. The newest answer tells that clock.
    """

    def __init__(self, store: MetadataStore, reader: StateReader, *, older_than_ms: int) -> None:
        self._placement = ContainerPlacementMetadataStore(store, on_malformed=lambda _: None)
        self._reader = reader
        self._older_than_ms = older_than_ms
        self._found: tuple[int, int] | None = None

    def removals(
        self, state: JobState, now_ms: int
    ) -> tuple[Sequence[Record], Sequence[StreamRecord]]:
        """Return deletions of finished placement messages, for state topic and coordinator stream.

        The oldest come first, at most as many as fit one transaction.
        """
        mail = read_mail(self._reader.snapshot().mail)
        answers = self._placement.responses()
        newest_ms = max((r.timestamp for r in (*answers, *mail.responses.values())), default=0)
        found_ms, found_at_ms = self._found = self._found or (newest_ms, now_ms)

        def is_old(answer: PlacementResponse) -> bool:
            is_earlier = answer.timestamp <= found_ms
            then_ms = now_ms - found_at_ms + found_ms if is_earlier else now_ms
            return then_ms - answer.timestamp >= self._older_than_ms

        found = finished_or_foreign(
            requests=self._placement.requests(),
            responses=answers,
            own_requests=mail.requests,
            own_responses=mail.responses,
            deployment_id=state.deployment_id,
            in_flight=in_flight(state.groups.values()),
            is_old=is_old,
        )[:_MOST_AT_ONCE]
        records: list[Record] = []
        stream_records: list[StreamRecord] = []
        for removal in found:
            is_request = removal.kind == "request"
            if removal.where is Where.STATE_TOPIC:
                prefix = REQUEST_PREFIX if is_request else RESPONSE_PREFIX
                records.append((f"{prefix}{removal.uuid}", None))
            else:
                key = request_key(removal.uuid) if is_request else response_key(removal.uuid)
                stream_records.append(stream.delete(PLACEMENT_NAMESPACE, key))
        return records, stream_records
