"""Waiting for what a coordinator answers: tails the stream, so no status is missed."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import Protocol

from samza_dagster.client.details import details_of
from samza_dagster.client.mailbox import Mailbox
from samza_dagster.client.views import over_with
from samza_dagster.errors import ActionFailed, DeadlineExceeded, MalformedRecord
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.interface import Change, MetadataStore, Watch
from samza_dagster.metadata.job_metadata import DEPLOYMENT_ID
from samza_dagster.metadata.own_requests import OwnMail
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.placement.state import Stage

OnResponse = Callable[[PlacementResponse], None]
OnDeployment = Callable[[str], None]
Until = Callable[[PlacementResponse], bool]
_SLICE_S = 0.5  # so that Ctrl-C is heard
_TAIL_S = 2.0  # a record that was read is in the tail by then, if it is there at all


def terminal(response: PlacementResponse) -> bool:
    """SUCCEEDED, FAILED or BAD_REQUEST: no later status follows."""
    return response.status_code.is_terminal


def started_on(response: PlacementResponse) -> str | None:
    """The host that a SUCCEEDED says its processor was started on; None for any other."""
    details = details_of(response)
    succeeded = response.status_code is StatusCode.SUCCEEDED
    return details.host if succeeded and details.started == response.processor_id else None


def is_held(response: PlacementResponse) -> bool:
    """The destination of a `reserve` is held, and its container waits for the commit."""
    return details_of(response).stage == Stage.HELD


def never_answered(uuid: str, over: str, last: PlacementResponse | None) -> ActionFailed:
    """The error of whoever waits for such a request; `over` as `over_with` says it."""
    told = f"last {last.status_code.value}: {last.response_message}" if last else "no response"
    return ActionFailed(
        f"the outcome of request {uuid}",
        seen=f"{over}; {told}: a new coordinator knows nothing of it",
        fix="see where its container is (samza-dagster status), then ask again",
    )


def _said(response: PlacementResponse) -> tuple[str, str, int]:
    return response.status_code.value, response.response_message, response.timestamp


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

    def deployment(self) -> str | None:
        """The running deployment; None where a request's end never hangs on it."""
        ...

    def watch(
        self, on_response: OnResponse, on_deployment: OnDeployment, from_position: int
    ) -> Watch:
        """Calls `on_response` with each response from a position on, `on_deployment` with each deployment."""
        ...


class StreamResponses:
    """`ResponseSource` of the coordinator stream."""

    def __init__(self, placement: ContainerPlacementMetadataStore, store: MetadataStore) -> None:
        self._placement = placement
        self._store = store
        self.end_position = store.end_position

    def response(self, uuid: str) -> PlacementResponse | None:
        """Sees `ResponseSource`."""
        return self._placement.read_response(uuid)

    def is_waiting(self, uuid: str) -> bool:
        """Sees `ResponseSource`."""
        return self._placement.read_request(uuid) is not None

    def deployment(self) -> str | None:
        """Sees `ResponseSource`: Samza's AM knows nothing of what the one before it was asked."""
        return _deployment(self._store.get(stream.SET_CONFIG, DEPLOYMENT_ID))

    def watch(
        self, on_response: OnResponse, on_deployment: OnDeployment, from_position: int
    ) -> Watch:
        """Sees `ResponseSource`."""

        def on_other(change: Change) -> None:
            is_deployment = (change.namespace, change.key) == (stream.SET_CONFIG, DEPLOYMENT_ID)
            found = _deployment(change.value) if is_deployment else None
            if found is not None:
                on_deployment(found)

        return self._placement.watch_responses(
            lambda response, _change: on_response(response),
            from_position=from_position,
            on_other=on_other,
        )


def _deployment(raw: bytes | None) -> str | None:
    try:
        value = stream.decode_envelope(raw).values.get("value") if raw is not None else None
    except MalformedRecord:
        return None
    return value if isinstance(value, str) else None


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

    def deployment(self) -> None:
        """Sees `ResponseSource`: our coordinator answers what the deployment before was asked."""

    def watch(
        self, on_response: OnResponse, on_deployment: OnDeployment, from_position: int
    ) -> Watch:
        """Sees `ResponseSource`."""
        return self._mailbox.watch_responses(
            lambda response, _position: on_response(response), from_position=from_position
        )


class ResponseWait:
    """One wait for the responses of one request.

    `deployment_id` is the request's, where that is known: once another one runs nobody answers it.
    `look` says at each look why else nobody will; empty: nothing is known against it.
    """

    def __init__(
        self,
        source: ResponseSource,
        uuid: str,
        *,
        on_response: OnResponse | None,
        until: Until,
        deployment_id: str | None = None,
        look: Callable[[], str] = str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._source = source
        self._uuid = uuid
        self._deployment_id = deployment_id
        self._running: str | None = None
        self._on_response = on_response
        self._until = until
        self._monotonic = monotonic
        self._arrived: queue.SimpleQueue[PlacementResponse] = queue.SimpleQueue()
        self._last: PlacementResponse | None = None

    def run(self, timeout_s: float, *, written_at: int | None) -> PlacementResponse:
        """The first response that `until` accepts, each one shown to `on_response` once, in order.

        `written_at`: the request was written at or after this position, so that the tail
        from there holds all its responses; None: the present one is read too. Raises
        `DeadlineExceeded` that tells what was seen last, `ActionFailed` once another deployment
        runs than the request is of, and no answer of a coordinator that knew it has come since.
        """
        deadline = self._monotonic() + timeout_s
        # Read before the tail's start is taken: the tail has nothing older than this.
        before = None if written_at is not None else self._source.response(self._uuid)
        start = self._source.end_position() if written_at is None else written_at
        watch = self._source.watch(self._note, self._note_deployment, start)
        try:
            if self._deployment_id is not None:
                self._running = self._running or self._source.deployment()
            backlog = [] if written_at is not None else self._present(before)
            while True:
                response = backlog.pop(0) if backlog else self._next(deadline, timeout_s)
                if self._last is not None and _said(response) == _said(self._last):
                    continue  # a new leader says it again, and where the action stands by now
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

    def _note_deployment(self, deployment_id: str) -> None:
        self._running = deployment_id

    def _over(self) -> str:
        if not self._deployment_id:
            return ""
        return over_with(self._deployment_id, self._running) or self._look()

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
        was_over = False
        while True:
            over, now = self._over(), self._monotonic()
            if over and not was_over:
                was_over, deadline = True, min(deadline, now + _TAIL_S)
            left = deadline - now
            if left <= 0:
                raise (
                    never_answered(self._uuid, over, self._last) if over else self._late(timeout_s)
                )
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
