"""The records that answer and delete a request which the heart never sees. Pure."""

from __future__ import annotations

from samza_dagster.coordinator import durable
from samza_dagster.coordinator.mail import Malformed
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import StreamRecord
from samza_dagster.metadata.placement_store import response_key
from samza_dagster.model import PlacementResponse
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE


def refusal_records(
    mail: Malformed, answer: PlacementResponse | None
) -> tuple[list[durable.Record], list[StreamRecord]]:
    """For state topic and coordinator stream; without an answer the request is deleted alone."""
    if mail.own:
        records: list[durable.Record] = [(mail.key, None)]
        if answer is not None:
            records.append(durable.response_record(answer))
        return records, []
    stream_records = [stream.delete(PLACEMENT_NAMESPACE, mail.key)]
    if answer is not None:
        key, value = response_key(answer.uuid), answer.to_json().encode()
        stream_records.append(StreamRecord(PLACEMENT_NAMESPACE, key, value))
    return [], stream_records
