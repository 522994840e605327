"""Finding a request again by its UUID, and waiting for what becomes of it, in either topic.

A wait tails its topic, so that no status is missed.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from samza_dagster.client.access import JobAccess
from samza_dagster.client.requests import RequestWriter
from samza_dagster.client.responses import never_answered
from samza_dagster.client.views import JobView, over_with
from samza_dagster.errors import DeadlineExceeded, MalformedRecord, SamzaDagsterError
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.interface import Change, MetadataStore, Watch
from samza_dagster.metadata.job_metadata import DEPLOYMENT_ID
from samza_dagster.metadata.own_requests import OwnMail, OwnRequestStore
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.metadata.resource_manager import HOLDS_S
from samza_dagster.model import PlacementResponse

OnResponse = Callable[[PlacementResponse], None]
Until = Callable[[PlacementResponse], bool]
_SLICE_S = 0.5  # so that Ctrl-C is heard
_TAIL_S = 2.0  # a record that was read is in the tail by then, if it is there at all
_LOOK_EVERY_S = HOLDS_S
"""While a request is waited for: what YARN's ResourceManager says is no newer."""


@dataclass(frozen=True)
class _Source:
    """The position of the responses of one kind of request.

    `response` is the newest one. `is_waiting`: the request is there, and no coordinator has taken it.
    `end_position` is that of the next record. `deployment` is the running one; None if a request's end
    never depends on it. `watch` calls its first argument with each response from a position on, its
    second with each deployment.
    """

    response: Callable[[str], PlacementResponse | None]
    is_waiting: Callable[[str], bool]
    end_position: Callable[[], int]
    deployment: Callable[[], str | None]
    watch: Callable[[OnResponse, Callable[[str], None], int], Watch]


def _of_stream(placement: ContainerPlacementMetadataStore, store: MetadataStore) -> _Source:
    """Samza's AM knows nothing of what the one before it was asked."""

    def watch(
        on_response: OnResponse, on_deployment: Callable[[str], None], from_position: int
    ) -> Watch:
        def on_other(change: Change) -> None:
            is_deployment = (change.namespace, change.key) == (stream.SET_CONFIG, DEPLOYMENT_ID)
            found = _deployment(change.value) if is_deployment else None
            if found is not None:
                on_deployment(found)

        return placement.watch_responses(
            lambda response, _change: on_response(response),
            from_position=from_position,
            on_other=on_other,
        )

    return _Source(
        response=placement.read_response,
        is_waiting=lambda uuid: placement.read_request(uuid) is not None,
        end_position=store.end_position,
        deployment=lambda: _deployment(store.get(stream.SET_CONFIG, DEPLOYMENT_ID)),
        watch=watch,
    )


def _of_own_topic(mailbox: OwnRequestStore, mail: Callable[[], OwnMail]) -> _Source:
    """Our coordinator answers what the deployment before was asked."""

    def response(uuid: str) -> PlacementResponse | None:
        return mail().responses.get(uuid)

    return _Source(
        response=response,
        is_waiting=lambda uuid: uuid in mail().requests,
        end_position=mailbox.end_position,
        deployment=lambda: None,
        watch=lambda on_response, _, from_position: mailbox.watch_responses(
            lambda response, _position: on_response(response), from_position=from_position
        ),
    )


def _deployment(raw: bytes | None) -> str | None:
    try:
        value = stream.decode_envelope(raw).values.get("value") if raw is not None else None
    except MalformedRecord:
        return None
    return value if isinstance(value, str) else None


class _Wait:
    """A wait for the responses of one request.

    `deployment_id` is the request's, if known: once another one runs, no answer comes. `look` returns
    at each look any other reason why no answer comes; empty: none is known.
    """

    def __init__(
        self,
        source: _Source,
        uuid: str,
        *,
        on_response: OnResponse | None,
        until: Until,
        deployment_id: str | None = None,
        look: Callable[[], str] = str,
        on_look: Callable[[float], object] = lambda _: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._on_look = on_look
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
        """Return present responses, then those that the tail brought meanwhile, in order of writing."""
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
            self._on_look(left)
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


def _said(response: PlacementResponse) -> tuple[str, str, int]:
    return response.status_code.value, response.response_message, response.timestamp


class Waiting:
    """Looks at requests that were made. All that are waited for share one reading of the job."""

    def __init__(self, job: JobAccess, requests: RequestWriter) -> None:
        self._job = job
        self._requests = requests
        self._due_s: float | None = None
        self._view: JobView | None = None
        self._noticed: set[tuple[str, str]] = set()

    def response(self, uuid: str) -> PlacementResponse | None:
        """The newest response; None while there is none."""
        placement = self._requests.placement
        response = placement.read_response(uuid)
        if response is not None or placement.has_request(uuid):
            return response  # what was asked in the coordinator stream is answered there
        return self._requests.mail().responses.get(uuid)

    def wait(
        self,
        uuid: str,
        timeout_s: float,
        on_response: OnResponse | None,
        until: Until,
        on_notice: Callable[[str], object],
        on_look: Callable[[float], object],
    ) -> PlacementResponse:
        """The first response that `until` accepts; see `PlacementClient.wait`."""
        requests = self._requests
        written = requests.written.get(uuid)
        known = None if written is not None else requests.known(uuid)
        if written is not None:
            own, written_at, deployment_id = written
        else:
            own, written_at = known is None and self._is_in_own_mail(uuid), None
            deployment_id = None if known is None else known.deployment_id
        source = (
            _of_own_topic(requests.mailbox(), requests.mail)
            if own
            else _of_stream(requests.placement, self._job.store)
        )
        wait = _Wait(
            source,
            uuid,
            on_response=on_response,
            until=until,
            deployment_id=deployment_id,
            look=lambda: self._why_over(uuid, deployment_id or "", on_notice),
            on_look=on_look,
            monotonic=self._job.monotonic,
        )
        return wait.run(timeout_s, written_at=written_at)

    def _why_over(self, uuid: str, deployment_id: str, on_notice: Callable[[str], object]) -> str:
        """Return why no answer to a request comes; what holds it up goes to `on_notice`, once.

        The job is read every `_LOOK_EVERY_S`, beginning one interval after the first call.
        """
        now_s = self._job.monotonic()
        if self._due_s is None or now_s >= self._due_s:
            is_first, self._due_s, self._view = self._due_s is None, now_s + _LOOK_EVERY_S, None
            with suppress(SamzaDagsterError):  # an error ends no wait
                self._view = None if is_first else self._job.read()[0]
        view = self._view
        if view is None or view.deployment_id != deployment_id:
            return ""
        pending = (*view.actions, *view.queued)
        trouble = next((a.trouble for a in pending if a.uuid == uuid), "")
        if trouble and (uuid, trouble) not in self._noticed:
            self._noticed.add((uuid, trouble))
            on_notice(trouble)
        return "" if view.capabilities.answers_late else view.why_over(deployment_id)

    def _is_in_own_mail(self, uuid: str) -> bool:
        if self._job.mailbox is None:
            return False
        mail = self._requests.mail()
        return uuid in mail.requests or uuid in mail.responses

    def history(
        self, processor_id: str | None, limit: int | None, of_stream_alone: bool
    ) -> tuple[PlacementResponse, ...]:
        """The newest response of each request, oldest first; see `PlacementClient.history`."""
        own = () if of_stream_alone else self._requests.mail().responses.values()
        both = (*self._requests.placement.responses(), *own)
        found = tuple(
            response
            for response in sorted(both, key=lambda r: (r.timestamp, r.uuid))
            if processor_id is None or response.processor_id == processor_id
        )
        return found if limit is None else found[max(0, len(found) - limit) :]
