"""Waiting for what a coordinator answers: tails the stream, so no status is missed."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from dataclasses import dataclass

from samza_dagster.errors import DeadlineExceeded
from samza_dagster.metadata.interface import Change
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.model import PlacementResponse

OnResponse = Callable[[PlacementResponse], None]
Until = Callable[[PlacementResponse], bool]
_SLICE_S = 0.5  # so that Ctrl-C is heard
_TAIL_S = 2.0  # a record that was read is in the tail by then, if it is there at all


def terminal(response: PlacementResponse) -> bool:
    """SUCCEEDED, FAILED or BAD_REQUEST: no later status follows."""
    return response.status_code.is_terminal


@dataclass(frozen=True)
class _Seen:
    response: PlacementResponse
    position: int


class ResponseWait:
    """One wait for the responses of one request."""

    def __init__(
        self,
        placement: ContainerPlacementMetadataStore,
        uuid: str,
        *,
        end_position: Callable[[], int],
        on_response: OnResponse | None,
        until: Until,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._placement = placement
        self._uuid = uuid
        self._end_position = end_position
        self._on_response = on_response
        self._until = until
        self._monotonic = monotonic
        self._arrived: queue.SimpleQueue[_Seen] = queue.SimpleQueue()
        self._last: PlacementResponse | None = None

    def run(self, timeout_s: float, *, written_at: int | None) -> PlacementResponse:
        """The first response that `until` accepts, each one shown to `on_response` once, in order.

        `written_at`: the request was written at or after this position, so that the tail
        from there holds all its responses; None: the present one is read too. Raises
        `DeadlineExceeded` that tells what was seen last.
        """
        deadline = self._monotonic() + timeout_s
        # Read before the tail's start is taken: the tail has nothing older than this.
        before = None if written_at is not None else self._placement.read_response(self._uuid)
        start = self._end_position() if written_at is None else written_at
        watch = self._placement.watch_responses(self._note, from_position=start)
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

    def _note(self, response: PlacementResponse, change: Change) -> None:
        if response.uuid == self._uuid:
            self._arrived.put(_Seen(response, change.position))

    def _present(self, before: PlacementResponse | None) -> list[PlacementResponse]:
        """What stands now, then what the tail brought meanwhile, in order of writing."""
        now = self._placement.read_response(self._uuid)
        if now is None or now == before:
            return [now] if now is not None else []
        # Written since the first reading: before the tail's start or after it. If after,
        # the tail has it too, with those that it overwrote.
        arrived: list[PlacementResponse] = []
        until = self._monotonic() + _TAIL_S
        while now not in arrived and self._monotonic() < until:
            try:
                arrived.append(self._arrived.get(timeout=_SLICE_S / 10).response)
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
                return self._arrived.get(timeout=min(left, _SLICE_S)).response
            except queue.Empty:
                continue

    def _late(self, timeout_s: float) -> DeadlineExceeded:
        if self._last is not None:
            seen = f"last {self._last.status_code.value}: {self._last.response_message}"
        elif self._placement.read_request(self._uuid) is not None:
            seen = "no response; the request is in the stream and no coordinator has taken it"
        else:
            seen = "no response, and no request in the stream: it was taken, or never written"
        return DeadlineExceeded(
            f"the outcome of request {self._uuid} within {timeout_s:g} s",
            seen=seen,
            fix=f"it may still go on: samza-dagster status {self._uuid}",
        )
