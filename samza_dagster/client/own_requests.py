"""Asking what Samza's wire has no form for: holds, standbys on request, failover, cancel."""

from __future__ import annotations

import uuid as uuid_module
from collections.abc import Callable
from dataclasses import dataclass

from samza_dagster.client.access import JobAccess
from samza_dagster.client.asked import Asked, same_asked
from samza_dagster.client.checks import expiry_ms, find_deployment
from samza_dagster.client.mailbox import Mailbox
from samza_dagster.client.request_uuid import canonical_uuid
from samza_dagster.client.state_source import CoordinatorState
from samza_dagster.client.views import JobView
from samza_dagster.errors import MissingPrerequisite, Unreachable
from samza_dagster.metadata.own_requests import OwnMail
from samza_dagster.model.own_requests import OwnRequest, RequestKind


@dataclass(frozen=True)
class Wanted:
    """What a request is to say, once every rule that can be checked was."""

    processor_id: str
    destination: str
    refers_to: str | None = None
    hold: bool = False
    execution_id: str | None = None


class OwnRequests:
    """Writes requests of our own, each once per UUID."""

    def __init__(
        self, job: JobAccess, read: Callable[[], tuple[JobView, CoordinatorState | None]]
    ) -> None:
        self._job = job
        self._read = read
        # UUID → where the topic ended before this client wrote the request.
        self.written: dict[str, int] = {}

    def mail(self) -> OwnMail:
        """Requests that wait, and the answers; empty where our coordinator never led."""
        state = self._job.state.read() if self._job.state is not None else None
        return state.mail if state is not None else OwnMail()

    def mailbox(self) -> Mailbox:
        """Where to write; raises `MissingPrerequisite` for a client over stores alone."""
        if self._job.mailbox is None:
            raise MissingPrerequisite(
                "requests of our own",
                seen="a client over metadata stores alone",
                fix="PlacementClient(connection), or over(…, mailbox=…)",
            )
        return self._job.mailbox

    def ask(
        self,
        kind: RequestKind,
        check: Callable[[JobView], Wanted],
        *,
        processor_id: str | None = None,
        uuid: str | None = None,
        deployment_id: str | None = None,
        request_expiry_s: float | None = None,
    ) -> Asked:
        """Writes what `check` says is wanted, unless the UUID is known already.

        `processor_id` is what a known request of this UUID must be for.

        Raises `InvalidInput` and `Refused`, by `check` or for a UUID that another request
        has; nothing was written then. `Unreachable`: whether it was written isn't known.
        """
        mailbox = self.mailbox()
        mailbox.prepare_writes()  # beside the reads that come first
        expiry = expiry_ms(request_expiry_s)
        asked = canonical_uuid(uuid) if uuid is not None else str(uuid_module.uuid4())
        view, state = self._read()
        mail = state.mail if state is not None else OwnMail()
        known = mail.requests.get(asked) or mail.responses.get(asked)
        if uuid is not None and known is not None:
            return same_asked(asked, kind, processor_id, known)
        wanted = check(view)
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
        if state is not None and asked in state.uuids:  # its answer was cleaned up since
            return Asked.of(asked, request)
        self.written[asked] = mailbox.end_position()
        try:
            mailbox.write(asked, request)
        except Unreachable as error:
            raise Unreachable(
                error.asked,
                seen=f"{error.seen}; whether the request was written isn't known",
                fix=f"{error.fix}; then ask again with UUID {asked}: nothing is done twice",
            ) from error
        return Asked.of(asked, request)
