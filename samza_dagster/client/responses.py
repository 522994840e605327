"""Waiting for what a coordinator answers: tails the stream, so no status is missed."""

from __future__ import annotations

import queue
import re
import time
from collections.abc import Callable
from typing import Protocol

from samza_dagster.client.mailbox import Mailbox
from samza_dagster.errors import DeadlineExceeded
from samza_dagster.metadata.interface import Watch
from samza_dagster.metadata.own_requests import OwnMail
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.placement import texts

OnResponse = Callable[[PlacementResponse], None]
Until = Callable[[PlacementResponse], bool]
_HELD = texts.held("", 0).partition(",")[0]
_SLICE_S = 0.5  # so that Ctrl-C is heard
_TAIL_S = 2.0  # a record that was read is in the tail by then, if it is there at all


def terminal(response: PlacementResponse) -> bool:
    """SUCCEEDED, FAILED or BAD_REQUEST: no later status follows."""
    return response.status_code.is_terminal


_STARTED_ON = re.compile(r"started container on host (\S+)$")


def started_on(response: PlacementResponse) -> str | None:
    """The host that a SUCCEEDED names, as Samza's AM words it and ours does; None for any other.

    Not the destination: that may be a word, and without host affinity the AM echoes what was
    asked (`ContainerManager`).
    """
    if response.status_code is not StatusCode.SUCCEEDED:
        return None
    found = _STARTED_ON.search(response.response_message)
    return found[1] if found else None


def is_held(response: PlacementResponse) -> bool:
    """The destination of a `reserve` is held, and its container waits for the commit."""
    return response.response_message.startswith(_HELD)


class ResponseSource(Protocol):
    """Where the responses of one kind of request are."""

    def response(self, uuid: str) -> PlacementResponse | None:
        """The newest response; None while there is none."""
        ...

    def is_waiting(self, uuid: str) -> bool:
        """The request is there, and no coordinator has taken it."""
        ...

    def end_position(self) -> int:
        """The position that the next record will have."""
        ...

    def watch(self, on_response: OnResponse, from_position: int) -> Watch:
        """Calls `on_response` with each response from a position on."""
        ...


class StreamResponses:
    """`ResponseSource` of the coordinator stream."""

    def __init__(
        self, placement: ContainerPlacementMetadataStore, end_position: Callable[[], int]
    ) -> None:
        self._placement = placement
        self.end_position = end_position

    def response(self, uuid: str) -> PlacementResponse | None:
        """Sees `ResponseSource`."""
        return self._placement.read_response(uuid)

    def is_waiting(self, uuid: str) -> bool:
        """Sees `ResponseSource`."""
        return self._placement.read_request(uuid) is not None

    def watch(self, on_response: OnResponse, from_position: int) -> Watch:
        """Sees `ResponseSource`."""
        return self._placement.watch_responses(
            lambda response, _change: on_response(response), from_position=from_position
        )


class OwnResponses:
    """`ResponseSource` of our own topic."""

    def __init__(self, mailbox: Mailbox, mail: Callable[[], OwnMail]) -> None:
        self._mailbox = mailbox
        self._mail = mail
        self.end_position = mailbox.end_position

    def response(self, uuid: str) -> PlacementResponse | None:
        """Sees `ResponseSource`."""
        return self._mail().responses.get(uuid)

    def is_waiting(self, uuid: str) -> bool:
        """Sees `ResponseSource`."""
        return uuid in self._mail().requests

    def watch(self, on_response: OnResponse, from_position: int) -> Watch:
        """Sees `ResponseSource`."""
        return self._mailbox.watch_responses(
            lambda response, _position: on_response(response), from_position=from_position
        )


class ResponseWait:
    """One wait for the responses of one request."""

    def __init__(
        self,
        source: ResponseSource,
        uuid: str,
        *,
        on_response: OnResponse | None,
        until: Until,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._uuid = uuid
        self._on_response = on_response
        self._until = until
        self._monotonic = monotonic
        self._arrived: queue.SimpleQueue[PlacementResponse] = queue.SimpleQueue()
        self._last: PlacementResponse | None = None

    def run(self, timeout_s: float, *, written_at: int | None) -> PlacementResponse:
        """The first response that `until` accepts, each one shown to `on_response` once, in order.

        `written_at`: the request was written at or after this position, so that the tail
        from there holds all its responses; None: the present one is read too. Raises
        `DeadlineExceeded` that tells what was seen last.
        """
        deadline = self._monotonic() + timeout_s
        # Read before the tail's start is taken: the tail has nothing older than this.
        before = None if written_at is not None else self._source.response(self._uuid)
        start = self._source.end_position() if written_at is None else written_at
        watch = self._source.watch(self._note, start)
        try:
            backlog = [] if written_at is not None else self._present(before)
            while True:
                response = backlog.pop(0) if backlog else self._next(deadline, timeout_s)
                if response == self._last:
                    continue
                self._last = response
                if self._on_response is not None:
                    self._on_response(response)
                if self._until(response):
                    return response
        finally:
            watch.close()

    def _note(self, response: PlacementResponse) -> None:
        if response.uuid == self._uuid:
            self._arrived.put(response)

    def _present(self, before: PlacementResponse | None) -> list[PlacementResponse]:
        """What stands now, then what the tail brought meanwhile, in order of writing."""
        now = self._source.response(self._uuid)
        if now is None or now == before:
            return [now] if now is not None else []
        # Written since the first reading: before the tail's start or after it. If after,
        # the tail has it too, with those that it overwrote.
        arrived: list[PlacementResponse] = []
        until = self._monotonic() + _TAIL_S
        while now not in arrived and self._monotonic() < until:
            try:
                arrived.append(self._arrived.get(timeout=_SLICE_S / 10))
            except queue.Empty:
                continue
        head = [before] if before is not None else []
        return [*head, *arrived] if now in arrived else [*head, now, *arrived]

    def _next(self, deadline: float, timeout_s: float) -> PlacementResponse:
        while True:
            left = deadline - self._monotonic()
            if left <= 0:
                raise self._late(timeout_s)
            try:
                return self._arrived.get(timeout=min(left, _SLICE_S))
            except queue.Empty:
                continue

    def _late(self, timeout_s: float) -> DeadlineExceeded:
        if self._last is not None:
            seen = f"last {self._last.status_code.value}: {self._last.response_message}"
        elif self._source.is_waiting(self._uuid):
            seen = "no response; the request is there and no coordinator has taken it"
        else:
            seen = "no response, and no request: it was taken, or never written"
        return DeadlineExceeded(
            f"the outcome of request {self._uuid} within {timeout_s:g} s",
            seen=seen,
            fix=f"it may still go on: samza-dagster status {self._uuid}",
        )
