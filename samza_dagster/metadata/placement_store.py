"""Placement requests and responses in a `MetadataStore` (SEP-22).

It is SEP-22's `ContainerPlacementMetadataStore`. There is one key per request and one per
response, so each response overwrites the one before: a watch sees all of them.
"""

from __future__ import annotations

import uuid as uuid_module
from collections.abc import Callable
from typing import TypeVar

from samza_dagster.errors import InvalidInput, MalformedRecord
from samza_dagster.metadata.coordinator_stream import SET_CONFIG
from samza_dagster.metadata.interface import (
    Change,
    MetadataStore,
    OnMalformed,
    Watch,
    log_malformed,
    wall_clock_ms,
)
from samza_dagster.model.placement_messages import (
    PLACEMENT_NAMESPACE,
    REQUEST,
    RESPONSE,
    PlacementRequest,
    PlacementResponse,
    parse_request,
    parse_response,
)

_Message = TypeVar("_Message", PlacementRequest, PlacementResponse)


def request_key(uuid: str) -> str:
    """Return `<uuid>.ContainerPlacementRequestMessage`; raise `InvalidInput` for no UUID."""
    return f"{_canonical(uuid)}.{REQUEST}"


def response_key(uuid: str) -> str:
    """Return `<uuid>.ContainerPlacementResponseMessage`; raise `InvalidInput` for no UUID."""
    return f"{_canonical(uuid)}.{RESPONSE}"


def _canonical(uuid: str) -> str:
    try:
        return str(uuid_module.UUID(uuid))
    except ValueError as error:
        raise InvalidInput(
            "a placement request's UUID", seen=repr(uuid), fix="the UUID that the request was given"
        ) from error


class ContainerPlacementMetadataStore:
    """Reads, writes and watches placement messages.

    Clients write requests. The job's coordinator alone writes responses and deletes requests.
    Unreadable records go to `on_malformed` and are skipped, except by `read_request` and
    `read_response`, which raise `MalformedRecord`.
    """

    def __init__(
        self,
        store: MetadataStore,
        *,
        now_ms: Callable[[], int] = wall_clock_ms,
        new_uuid: Callable[[], uuid_module.UUID] = uuid_module.uuid4,
        on_malformed: OnMalformed = log_malformed,
    ) -> None:
        self._store = store
        self._now_ms = now_ms
        self._new_uuid = new_uuid
        self._on_malformed = on_malformed

    def write_request(
        self,
        deployment_id: str,
        processor_id: str,
        destination_host: str,
        *,
        request_expiry_ms: int | None = None,
        timestamp_ms: int | None = None,
        uuid: str | None = None,
    ) -> str:
        """Write a request and return its UUID.

        A given `uuid` makes a repetition safe: it has no second effect. Raises `InvalidInput` for
        a field that Samza's reader could not read.
        """
        try:
            request = PlacementRequest(
                uuid=_canonical(uuid) if uuid is not None else str(self._new_uuid()),
                deployment_id=deployment_id,
                processor_id=processor_id,
                destination_host=destination_host,
                timestamp=self._now_ms() if timestamp_ms is None else timestamp_ms,
                request_expiry=request_expiry_ms,
            )
        except ValueError as error:
            raise InvalidInput(
                "write a placement request", seen=str(error), fix="the named field"
            ) from error
        self._put(request_key(request.uuid), request)
        return request.uuid

    def write_response(self, response: PlacementResponse) -> int:
        """Write a response; return its position. For a coordinator only."""
        return self._put(response_key(response.uuid), response)

    def has_request(self, uuid: str) -> bool:
        """Return whether the store has an open request of this UUID, even an unreadable one."""
        return self._store.get(PLACEMENT_NAMESPACE, request_key(uuid)) is not None

    def read_request(self, uuid: str) -> PlacementRequest | None:
        """Return the request, or None once a coordinator has taken it."""
        key = request_key(uuid)
        payload = self._store.get(PLACEMENT_NAMESPACE, key)
        return _read(parse_request, key, payload) if payload is not None else None

    def read_response(self, uuid: str) -> PlacementResponse | None:
        """Return the newest response, or None when there is none yet."""
        key = response_key(uuid)
        payload = self._store.get(PLACEMENT_NAMESPACE, key)
        return _read(parse_response, key, payload) if payload is not None else None

    def delete_request(self, uuid: str) -> None:
        """Delete the request (if present)."""
        self._store.remove(PLACEMENT_NAMESPACE, request_key(uuid))

    def delete_response(self, uuid: str) -> None:
        """Delete the response (if present)."""
        self._store.remove(PLACEMENT_NAMESPACE, response_key(uuid))

    def delete_record(self, key: str) -> None:
        """Delete the record of that key, even if it isn't a message."""
        self._store.remove(PLACEMENT_NAMESPACE, key)

    def requests(self) -> tuple[PlacementRequest, ...]:
        """Return all open requests, oldest first."""
        return self._all(REQUEST, parse_request)

    def responses(self) -> tuple[PlacementResponse, ...]:
        """Return the newest response of every request, oldest first."""
        return self._all(RESPONSE, parse_response)

    def responses_since(
        self, position: int
    ) -> tuple[tuple[tuple[int, PlacementResponse], ...], int]:
        """Return each status written from `position` on, with its position, and the next position.

        Of overwritten statuses, compaction may have left the last alone.
        """
        changes, end = self._store.changes(PLACEMENT_NAMESPACE, position)
        found = ((change.position, self._response(change)) for change in changes)
        return tuple((at, response) for at, response in found if response is not None), end

    def watch_responses(
        self,
        on_response: Callable[[PlacementResponse, Change], None],
        *,
        from_position: int | None = None,
        on_other: Callable[[Change], None] | None = None,
    ) -> Watch:
        """Call `on_response` for each status as it is written; see `MetadataStore.watch`.

        `on_other` gets each change of the job's config, in its order among them.
        """

        def on_change(change: Change) -> None:
            if change.namespace == SET_CONFIG and on_other is not None:
                on_other(change)
            elif (response := self._response(change)) is not None:
                on_response(response, change)

        namespaces = {PLACEMENT_NAMESPACE, SET_CONFIG if on_other else PLACEMENT_NAMESPACE}
        return self._store.watch(namespaces, on_change, since=from_position)

    def _response(self, change: Change) -> PlacementResponse | None:
        """Return the status of a change, if it is a readable one."""
        if change.value is None or not change.key.endswith(f".{RESPONSE}"):
            return None
        try:
            return _read(parse_response, change.key, change.value, change.position)
        except MalformedRecord as error:
            self._on_malformed(error)
            return None

    def _put(self, key: str, message: PlacementRequest | PlacementResponse) -> int:
        return self._store.put(PLACEMENT_NAMESPACE, key, message.to_json().encode())

    def _all(self, kind: str, parse: Callable[[bytes], _Message]) -> tuple[_Message, ...]:
        found: list[_Message] = []
        for key, payload in self._store.all(PLACEMENT_NAMESPACE).items():
            if not key.endswith(f".{kind}"):
                continue
            try:
                found.append(_read(parse, key, payload))
            except MalformedRecord as error:
                self._on_malformed(error)
        return tuple(sorted(found, key=lambda message: (message.timestamp, message.uuid)))


def _read(
    parse: Callable[[bytes], _Message], key: str, payload: bytes, position: int | None = None
) -> _Message:
    where = f"key {key}" if position is None else f"position {position}, key {key}"
    try:
        message = parse(payload)
    except MalformedRecord as error:
        raise MalformedRecord(error.asked, seen=f"{where}, {error.seen}", fix=error.fix) from error
    if not key.startswith(f"{message.uuid}."):
        # Its sender could never find it, because a coordinator answers and deletes by the uuid.
        raise MalformedRecord(
            f"read a {message.sub_type}",
            seen=f"{where}, field uuid: {message.uuid}",
            fix="a key that begins with the message's uuid",
        )
    return message
