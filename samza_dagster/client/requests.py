"""Writing requests, each once per UUID: placements to the coordinator stream, all else to our topic."""

from __future__ import annotations

import uuid as uuid_module
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, Unpack

from samza_dagster.client.access import JobAccess, needed
from samza_dagster.client.checks import (
    Permitted,
    check_budget,
    expiry_ms,
    find_deployment,
    find_processor,
    legal_destination,
)
from samza_dagster.client.views import JobView, ProcessorView, View
from samza_dagster.errors import InvalidInput, Refused, Unreachable
from samza_dagster.metadata.own_requests import OwnMail, OwnRequestStore
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.model import PlacementRequest, PlacementResponse
from samza_dagster.model.naming import ANY_HOST, DESTINATION_WORDS
from samza_dagster.model.own_requests import OwnRequest, RequestKind


@dataclass(frozen=True)
class Request(View):
    """A request and its UUID. Times in ms.

    `refers_to` is another request's UUID. `execution_id` is the incarnation that a fail-over is about;
    None is whichever runs. `own`: it is in our state topic and not in Samza's coordinator stream, so
    only our own coordinator knows it.
    """

    uuid: str
    kind: str
    processor_id: str
    destination_host: str
    deployment_id: str
    timestamp: int
    request_expiry: int | None = None
    hold: bool = False
    refers_to: str | None = None
    execution_id: str | None = None
    own: bool = True

    @classmethod
    def of(
        cls, uuid: str, known: OwnRequest | PlacementRequest | PlacementResponse, kind: str = ""
    ) -> Self:
        """The request as it was written, or as its response has it: that says no `kind`."""
        if isinstance(known, OwnRequest):
            return cls(uuid, **known.model_dump(mode="json", exclude={"version"}))
        return cls(
            uuid,
            kind,
            known.processor_id,
            known.destination_host,
            known.deployment_id,
            known.timestamp,
            known.request_expiry,
            own=kind != RequestKind.PLACE.value,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the form in its topic: Samza's field names in the coordinator stream, else ours."""
        if not self.own:
            return PlacementRequest(
                uuid=self.uuid,
                deployment_id=self.deployment_id,
                processor_id=self.processor_id,
                destination_host=self.destination_host,
                timestamp=self.timestamp,
                request_expiry=self.request_expiry,
            ).to_wire()
        shown = super().to_json()
        del shown["own"]
        return shown


def canonical_uuid(uuid: str | None) -> str:
    """Return the UUID as it is on the wire, a new one for None; raises `InvalidInput` for an invalid one."""
    try:
        return str(uuid_module.uuid4() if uuid is None else uuid_module.UUID(uuid))
    except ValueError as error:
        raise InvalidInput(
            "request UUID", seen=repr(uuid), fix="the UUID that place printed"
        ) from error


def _require_same(
    known: Request, kind: RequestKind, processor_id: str | None, destination: str | None = None
) -> None:
    """Raises `Refused` when the UUID of `known` was given for another request; None: any."""
    if (
        known.kind in ("", kind.value)
        and processor_id in (None, known.processor_id)
        and destination in (None, known.destination_host)
    ):
        return
    asked = f"{kind.value} with UUID {known.uuid}"
    if destination is not None:
        asked = f"request {known.uuid} for {processor_id} --to {destination}"
    what = known.kind or "a request"
    raise Refused(
        f"{asked}: one UUID, one request",
        seen=f"it was given for {what} of {known.processor_id} --to {known.destination_host}",
        fix="another UUID, or none",
    )


@contextmanager
def _perhaps_written(uuid: str) -> Generator[None]:
    """Wrap the write of a request: without an answer it is unknown whether it was written."""
    try:
        yield
    except Unreachable as error:
        raise Unreachable(
            error.asked,
            seen=f"{error.seen}; whether the request was written isn't known",
            fix=f"{error.fix}; then ask again with UUID {uuid}: nothing is done twice",
        ) from error


@dataclass(frozen=True)
class Wanted:
    """A validated request, ready to be written.

    For its plan: `subject` is the processor that is started, moved or stopped, `steps` what the
    coordinator does with it, `notices` what the operator should know.
    """

    processor_id: str
    destination: str
    refers_to: str | None = None
    hold: bool = False
    execution_id: str | None = None
    subject: ProcessorView | None = None
    steps: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


class PlaceOptions(Permitted, total=False):
    """Options of a placement beside its processor and destination.

    `deployment_id` None is the running one, `uuid` None a new one. `on_notice` gets, before the
    request, how many of the stops that Samza's AM allows are spent.
    """

    deployment_id: str | None
    request_expiry_s: float | None
    uuid: str | None
    on_notice: Callable[[str], None]


class Written(NamedTuple):
    """Where the request's topic ended before this client wrote it.

    `deployment_id`: of one in the coordinator stream, whose end hangs on it.
    """

    own: bool
    position: int
    deployment_id: str | None = None


class RequestWriter:
    """`placement` are those in the coordinator stream; `written` has this client's, by UUID."""

    def __init__(self, job: JobAccess) -> None:
        self._job = job
        self.placement = ContainerPlacementMetadataStore(
            job.store, now_ms=job.now_ms, on_malformed=lambda _: None
        )
        self.written: dict[str, Written] = {}

    def known(self, uuid: str) -> PlacementRequest | PlacementResponse | None:
        """A placement while no coordinator has taken it, then its newest response."""
        return self.placement.read_request(uuid) or self.placement.read_response(uuid)

    def mail(self) -> OwnMail:
        """Requests of our own that wait, and the answers; empty where our coordinator never led."""
        state = self._job.state.read() if self._job.state is not None else None
        return state.mail if state is not None else OwnMail()

    def mailbox(self) -> OwnRequestStore:
        """Where those are written; raises `MissingPrerequisite` for a client over stores alone."""
        return needed(self._job.mailbox, "requests of our own", "mailbox")

    def place(
        self,
        processor_id: str,
        destination: str,
        *,
        deployment_id: str | None = None,
        request_expiry_s: float | None = None,
        uuid: str | None = None,
        on_notice: Callable[[str], object] = lambda _: None,
        **permitted: Unpack[Permitted],
    ) -> Request:
        """Writes a placement, unless its UUID is known already; see `PlacementClient.place`."""
        kind, expiry = RequestKind.PLACE, expiry_ms(request_expiry_s)
        self._job.store.prepare_writes()  # beside the reads that come first
        asked = canonical_uuid(uuid)
        known = self.known(asked) if uuid is not None else None
        if known is not None:
            chosen = known.destination_host not in DESTINATION_WORDS - {ANY_HOST}
            is_any = chosen and (permitted.get("or_any_legal") or destination == ANY_HOST)
            before = Request.of(asked, known, kind.value)
            _require_same(before, kind, processor_id, None if is_any else destination)
            return before
        view, state = self._job.read()
        deployment = find_deployment(view, deployment_id)
        taken = state is not None and asked in state.uuids  # its response was cleaned up since
        if not taken:
            processor = find_processor(view, processor_id)
            destination = legal_destination(view, processor, destination, **permitted).asked
            beyond = permitted.get("beyond_budget", False)
            if spent := check_budget(view, processor_id, beyond_budget=beyond):
                on_notice(spent)
        request = Request(
            uuid=asked,
            kind=kind.value,
            processor_id=processor_id,
            destination_host=destination,
            deployment_id=deployment,
            timestamp=self._job.now_ms(),
            request_expiry=expiry,
            own=False,
        )
        if taken:
            return request
        self.written[asked] = Written(False, self._job.store.end_position(), deployment)
        with _perhaps_written(asked):
            self.placement.write_request(
                deployment,
                processor_id,
                destination,
                request_expiry_ms=expiry,
                timestamp_ms=request.timestamp,
                uuid=asked,
            )
        return request

    def ask(
        self,
        kind: RequestKind,
        check: Callable[[JobView], Wanted],
        *,
        processor_id: str | None = None,
        uuid: str | None = None,
        deployment_id: str | None = None,
        request_expiry_s: float | None = None,
    ) -> Request:
        """Writes a request of our own as `check` says it is wanted, unless the UUID is known already.

        `processor_id` is what a known request of this UUID must be for.

        Raises `InvalidInput` and `Refused`, by `check` or for a UUID that another request
        has; nothing was written then. `Unreachable`: whether it was written isn't known.
        """
        if self._job.group is None:  # a group has none: the check says what to do instead
            self.mailbox().prepare_writes()  # beside the reads that come first
        expiry, asked = expiry_ms(request_expiry_s), canonical_uuid(uuid)
        view, state = self._job.read()
        mail = state.mail if state is not None else OwnMail()
        known = mail.requests.get(asked) or mail.responses.get(asked)
        if known is not None:
            before = Request.of(asked, known)
            _require_same(before, kind, processor_id)
            return before if before.kind else replace(before, kind=kind.value)
        wanted, mailbox = check(view), self.mailbox()
        request = OwnRequest(
            kind=kind,
            processor_id=wanted.processor_id,
            destination_host=wanted.destination,
            deployment_id=find_deployment(view, deployment_id),
            timestamp=self._job.now_ms(),
            request_expiry=expiry,
            hold=wanted.hold,
            refers_to=wanted.refers_to,
            execution_id=wanted.execution_id,
        )
        if state is None or asked not in state.uuids:  # else its answer was cleaned up since
            self.written[asked] = Written(True, mailbox.end_position())
            with _perhaps_written(asked):
                mailbox.write(asked, request)
        return Request.of(asked, request)
