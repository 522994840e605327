"""Requests that the reducer never sees: malformed ones, and those for a full queue. Pure.

A group is one record of the state topic, its queue included. Without a bound anybody's requests
could make it too large for a record, and no leader could write it again.
"""

from __future__ import annotations

from samza_dagster.coordinator import durable
from samza_dagster.coordinator.mail import Malformed
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import StreamRecord
from samza_dagster.metadata.placement_store import request_key, response_key
from samza_dagster.metadata.state_topic import encode_record
from samza_dagster.model import PlacementResponse
from samza_dagster.model.own_requests import REQUEST_PREFIX, RequestKind
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE
from samza_dagster.placement.codec import group_to_json
from samza_dagster.placement.state import Group, JobState, PlacementAsk

MOST_QUEUED = 500
"""Requests of a group, some 240 bytes each as clients write them."""
MOST_QUEUED_BYTES = 400_000
"""As the record has them: the rest of the 1 MB that brokers take is for the group's own state."""
_QUEUED_KINDS = (
    RequestKind.PLACE,
    RequestKind.FAIL_OVER,
    RequestKind.START_STANDBY,
    RequestKind.STOP_STANDBY,
)


def refusal_records(
    mail: Malformed, answer: PlacementResponse | None
) -> tuple[list[durable.Record], list[StreamRecord]]:
    """Return the records of a refusal for state topic and coordinator stream.

    Without an answer they only delete the request.
    """
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


def refusal(state: JobState, ask: PlacementAsk) -> Malformed | None:
    """Return the answer to a request for which its group has no room; None where it has.

    None too for a request that the reducer wouldn't queue: of another deployment, with a known
    UUID, or about another request, which may make room.
    """
    if ask.kind not in _QUEUED_KINDS or ask.deployment_id != state.deployment_id:
        return None
    if ask.uuid in state.uuids or ask.uuid in state.refused or ask.uuid in state.index.by_id:
        return None
    group_id = state.index.by_processor.get(ask.processor_id, "")
    group = state.groups.get(group_id)
    if group is None or not group.queue:
        return None
    size = _bytes((*group.queue, ask))
    if len(group.queue) < MOST_QUEUED and size <= MOST_QUEUED_BYTES:
        return None
    waiting = f"{len(group.queue)} of group {group_id} wait"
    if len(group.queue) >= MOST_QUEUED:
        full = f"at most {MOST_QUEUED} requests; {waiting}"
    else:
        full = (
            f"at most {MOST_QUEUED_BYTES} bytes of requests; {waiting}, with this one {size} bytes"
        )
    why = f"a group queues {full}; ask again when one of them has ended, or cancel some"
    return Malformed(
        own=ask.own,
        key=f"{REQUEST_PREFIX}{ask.uuid}" if ask.own else request_key(ask.uuid),
        uuid=ask.uuid,
        why=why,
        deployment_id=ask.deployment_id,
        processor_id=ask.processor_id,
        destination_host=ask.destination_host,
    )


def _bytes(queue: tuple[PlacementAsk, ...]) -> int:
    """Return the bytes that these requests take in the group's record."""
    _, value = encode_record("", group_to_json(Group("", {}, queue=queue)))
    return len(value or b"")
