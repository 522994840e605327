"""Finding a request again by its UUID, and waiting for what becomes of it, in either topic."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress

from samza_dagster.client.access import JobAccess
from samza_dagster.client.asked import canonical_uuid
from samza_dagster.client.own_requests import OwnRequests
from samza_dagster.client.responses import (
    OnResponse,
    OwnResponses,
    ResponseSource,
    ResponseWait,
    StreamResponses,
    Until,
)
from samza_dagster.client.stream_requests import StreamRequests
from samza_dagster.client.views import JobView
from samza_dagster.errors import SamzaDagsterError
from samza_dagster.metadata.resource_manager import HOLDS_S
from samza_dagster.model import PlacementResponse

_LOOK_EVERY_S = HOLDS_S
"""While a request is waited for: what YARN's ResourceManager says is no newer."""


class Waiting:
    """Looks at requests that were made. All that are waited for share one reading of the job."""

    def __init__(self, job: JobAccess, stream: StreamRequests, own: OwnRequests) -> None:
        self._job = job
        self._stream = stream
        self._own = own
        self._due_s: float | None = None
        self._view: JobView | None = None
        self._told: set[tuple[str, str]] = set()

    def asked_before(self, uuids: Collection[str]) -> frozenset[str]:
        """Those of these requests that were asked, be they answered or not."""
        mail = self._own.mail()
        there = self._stream.placement.uuids() | mail.requests.keys() | mail.responses.keys()
        return frozenset(uuid for uuid in uuids if canonical_uuid(uuid) in there)

    def response(self, uuid: str) -> PlacementResponse | None:
        """The newest response; None while there is none."""
        response = self._stream.placement.read_response(uuid)
        if response is not None or self._stream.placement.has_request(uuid):
            return response  # what was asked in the coordinator stream is answered there
        return self._own.mail().responses.get(uuid)

    def wait(
        self,
        uuid: str,
        timeout_s: float,
        on_response: OnResponse | None,
        until: Until,
        on_notice: Callable[[str], object],
    ) -> PlacementResponse:
        """The first response that `until` accepts; see `PlacementClient.wait`."""
        ours = uuid in self._own.written
        written = self._stream.written.get(uuid)
        known = None if ours or written is not None else self._stream.known(uuid)
        own = ours or (written is None and known is None and self._is_in_own_mail(uuid))
        source: ResponseSource = (
            OwnResponses(self._own.mailbox(), self._own.mail)
            if own
            else StreamResponses(self._stream.placement, self._job.store)
        )
        at, deployment_id = written or (None, known.deployment_id if known is not None else None)
        wait = ResponseWait(
            source,
            uuid,
            on_response=on_response,
            until=until,
            deployment_id=deployment_id,
            look=lambda: self._why_over(uuid, deployment_id or "", on_notice),
            monotonic=self._job.monotonic,
        )
        return wait.run(timeout_s, written_at=self._own.written.get(uuid) if own else at)

    def _why_over(self, uuid: str, deployment_id: str, on_notice: Callable[[str], object]) -> str:
        """Why nobody will answer a request; what holds it up goes to `on_notice`, once.

        The job is read each `_LOOK_EVERY_S`, for the first time after the first of them.
        """
        now_s = self._job.monotonic()
        if self._due_s is None or now_s >= self._due_s:
            is_first, self._due_s, self._view = self._due_s is None, now_s + _LOOK_EVERY_S, None
            with suppress(SamzaDagsterError):  # whoever waits goes on waiting
                self._view = None if is_first else self._job.read()[0]
        view = self._view
        if view is None or view.coordinator != "samza" or view.deployment_id != deployment_id:
            return ""
        trouble = next((a.trouble for a in view.actions if a.uuid == uuid), "")
        if trouble and (uuid, trouble) not in self._told:
            self._told.add((uuid, trouble))
            on_notice(trouble)
        return view.why_over(deployment_id)

    def _is_in_own_mail(self, uuid: str) -> bool:
        if self._job.mailbox is None:
            return False
        mail = self._own.mail()
        return uuid in mail.requests or uuid in mail.responses

    def history(
        self, processor_id: str | None, limit: int | None, of_stream_alone: bool
    ) -> tuple[PlacementResponse, ...]:
        """The newest response of each request, oldest first; see `PlacementClient.history`."""
        own = () if of_stream_alone else self._own.mail().responses.values()
        both = (*self._stream.placement.responses(), *own)
        found = tuple(
            response
            for response in sorted(both, key=lambda r: (r.timestamp, r.uuid))
            if processor_id is None or response.processor_id == processor_id
        )
        return found if limit is None else found[max(0, len(found) - limit) :]
