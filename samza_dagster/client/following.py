"""Finding a request again by its UUID, and waiting for what becomes of it, in either topic."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from samza_dagster.client import audit_history
from samza_dagster.client.access import JobAccess
from samza_dagster.client.asked import Asked
from samza_dagster.client.own_requests import OwnRequests
from samza_dagster.client.request_uuid import canonical_uuid
from samza_dagster.client.responses import (
    OnResponse,
    OwnResponses,
    ResponseSource,
    ResponseWait,
    StreamResponses,
    Until,
    terminal,
)
from samza_dagster.client.views import JobView
from samza_dagster.errors import MissingPrerequisite, SamzaDagsterError
from samza_dagster.metadata.interface import MetadataStore
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.metadata.resource_manager import HOLDS_S
from samza_dagster.model import PlacementRequest, PlacementResponse

LOOK_EVERY_S = HOLDS_S
"""While a request is waited for: what YARN's ResourceManager says is no newer."""


@dataclass
class Looks:
    """What waits see of the job: the newest look, when the next is due, and which troubles were told."""

    due_s: float | None = None
    view: JobView | None = None
    told: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])


class Following:
    """The part of `PlacementClient` that looks at requests which were made.

    `_written` has, by UUID, where the stream ended before this client wrote the request, and for
    which deployment.
    """

    _job: JobAccess
    _store: MetadataStore
    _placement: ContainerPlacementMetadataStore
    _own: OwnRequests
    _written: dict[str, tuple[int, str]]
    _looks: Looks

    if TYPE_CHECKING:

        def view(self) -> JobView:
            """See `PlacementClient`."""
            ...

    def standby_origins(self) -> dict[str, str]:
        """Standby → UUID of the request that has spun up the one which has its id now or had it last.

        By the job's audit topic, which is read whole: it tells of starts whose answers are
        cleaned up. Raises `InvalidInput` when there is no such topic, `MalformedRecord`,
        `Unreachable`, and `MissingPrerequisite` of a client over stores alone.
        """
        if self._job.audit is None:
            raise MissingPrerequisite(
                "which request has spun up a standby",
                seen="a client over metadata stores alone",
                fix="PlacementClient(connection), or over(…, audit=…)",
            )
        log = self._job.audit()
        try:
            return audit_history.standby_origins(audit_history.decoded(log))
        finally:
            log.close()

    def request(self, uuid: str) -> PlacementRequest | None:
        """The request in the coordinator stream while no coordinator has taken it; None after that."""
        return self._placement.read_request(canonical_uuid(uuid))

    def own_request(self, uuid: str) -> Asked | None:
        """The request of our own while no coordinator has taken it; None after that."""
        asked = canonical_uuid(uuid)
        found = self._own.mail().requests.get(asked)
        return None if found is None else Asked.of(asked, found)

    def asked_before(self, uuids: Collection[str]) -> frozenset[str]:
        """Those of these requests that were asked, be they answered or not; one reading for all."""
        if not uuids:
            return frozenset()
        mail = self._own.mail()
        there = self._placement.uuids() | mail.requests.keys() | mail.responses.keys()
        return frozenset(uuid for uuid in uuids if canonical_uuid(uuid) in there)

    def wrote(self, uuid: str) -> bool:
        """This client wrote the request; one that was asked before was written by no call of it."""
        asked = canonical_uuid(uuid)
        return asked in self._written or asked in self._own.written

    def response(self, uuid: str) -> PlacementResponse | None:
        """The newest response, in either topic; None while there is none."""
        asked = canonical_uuid(uuid)
        response = self._placement.read_response(asked)
        if response is not None or self._placement.has_request(asked):
            return response  # what was asked in the coordinator stream is answered there
        return self._own.mail().responses.get(asked)

    def wait(
        self,
        uuid: str,
        *,
        timeout_s: float,
        on_response: OnResponse | None = None,
        until: Until = terminal,
        on_notice: Callable[[str], object] = lambda _: None,
    ) -> PlacementResponse:
        """The first response that `until` accepts (a terminal one), within `timeout_s`.

        `on_response` gets each status once, in order: all of them for a request that this
        client wrote, else the present one and those after it. Where Samza's AM coordinates,
        `on_notice` gets what holds the request up, once (`ActionView.trouble`). Raises `DeadlineExceeded`
        that tells what was seen last; the action may go on. Raises `ActionFailed` when the
        deployment that was asked is over, or the job is dead: nobody answers then.
        """
        asked = canonical_uuid(uuid)
        ours = asked in self._own.written
        written = self._written.get(asked)
        known = None if ours or written is not None else self._known(asked)
        own = ours or (written is None and known is None and self._is_in_own_mail(asked))
        source: ResponseSource = (
            OwnResponses(self._own.mailbox(), self._own.mail)
            if own
            else StreamResponses(self._placement, self._store)
        )
        at, deployment_id = written or (None, known.deployment_id if known is not None else None)
        wait = ResponseWait(
            source,
            asked,
            on_response=on_response,
            until=until,
            deployment_id=deployment_id,
            look=lambda: self._looked_at(asked, deployment_id or "", on_notice),
            monotonic=self._job.monotonic,
        )
        return wait.run(timeout_s, written_at=self._own.written.get(asked) if own else at)

    def _looked_at(self, uuid: str, deployment_id: str, on_notice: Callable[[str], object]) -> str:
        """Why nobody will answer a request; what holds it up goes to `on_notice`.

        By a look each `LOOK_EVERY_S`, which all requests share that are waited for.
        """
        looks, now_s = self._looks, self._job.monotonic()
        if looks.due_s is None or now_s >= looks.due_s:
            is_first, looks.due_s, looks.view = looks.due_s is None, now_s + LOOK_EVERY_S, None
            with suppress(SamzaDagsterError):  # whoever waits goes on waiting
                looks.view = None if is_first else self.view()
        view = looks.view
        if view is None or view.coordinator != "samza" or view.deployment_id != deployment_id:
            return ""
        trouble = next((a.trouble for a in view.actions if a.uuid == uuid), "")
        if trouble and (uuid, trouble) not in looks.told:
            looks.told.add((uuid, trouble))
            on_notice(trouble)
        return view.why_over(deployment_id)

    def _is_in_own_mail(self, uuid: str) -> bool:
        if self._job.mailbox is None:
            return False
        mail = self._own.mail()
        return uuid in mail.requests or uuid in mail.responses

    def history(
        self,
        processor_id: str | None = None,
        *,
        limit: int | None = None,
        of_stream_alone: bool = False,
    ) -> tuple[PlacementResponse, ...]:
        """The newest response of each request, oldest first; of one processor if named.

        `limit` keeps the newest ones. Records that can't be read are left out. With
        `of_stream_alone` the state topic isn't read, nor the answers to requests of our own.
        """
        own = () if of_stream_alone else self._own.mail().responses.values()
        both = (*self._placement.responses(), *own)
        found = tuple(
            response
            for response in sorted(both, key=lambda r: (r.timestamp, r.uuid))
            if processor_id is None or response.processor_id == processor_id
        )
        return found if limit is None else found[max(0, len(found) - limit) :]

    def responses_since(
        self, position: int | None
    ) -> tuple[tuple[tuple[int, PlacementResponse], ...], int]:
        """Each status written from `position` on, in order, and the position to go on from.

        None reads nothing and tells where the stream ends now.
        """
        if position is None:
            return (), self._store.end_position()
        return self._placement.responses_since(position)

    def own_responses_since(
        self, position: int | None
    ) -> tuple[tuple[tuple[int, PlacementResponse], ...], int]:
        """Each answer to a request of our own from `position` on, in order, and where to go on.

        Positions are the state topic's. None reads nothing and tells where its answers end. Of
        answers that were overwritten meanwhile compaction may have left the last alone.
        """
        return self._own.mail().answers_since(position)

    def _known(self, uuid: str) -> PlacementRequest | PlacementResponse | None:
        return self._placement.read_request(uuid) or self._placement.read_response(uuid)
