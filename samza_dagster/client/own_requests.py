"""Asking what Samza's wire has no form for: holds, standbys on request, failover, cancel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from samza_dagster.client.access import JobAccess, needed
from samza_dagster.client.asked import Asked, canonical_uuid, perhaps_written, same_asked
from samza_dagster.client.checks import expiry_ms, find_deployment
from samza_dagster.client.views import JobView, ProcessorView
from samza_dagster.errors import Unreachable
from samza_dagster.metadata.own_requests import OwnMail, OwnRequestStore
from samza_dagster.model.own_requests import OwnRequest, RequestKind


@dataclass(frozen=True)
class Wanted:
    """What a request is to say, once every rule that can be checked was.

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


class OwnRequests:
    """Writes requests of our own, each once per UUID."""

    def __init__(self, job: JobAccess) -> None:
        self._job = job
        # UUID → where the topic ended before this client wrote the request.
        self.written: dict[str, int] = {}

    def mail(self) -> OwnMail:
        """Requests that wait, and the answers; empty where our coordinator never led."""
        state = self._job.state.read() if self._job.state is not None else None
        return state.mail if state is not None else OwnMail()

    def mailbox(self) -> OwnRequestStore:
        """Where to write; raises `MissingPrerequisite` for a client over stores alone."""
        return needed(self._job.mailbox, "requests of our own", "mailbox")

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
        expiry, asked = expiry_ms(request_expiry_s), canonical_uuid(uuid)
        view, state = self._job.read()
        mail = state.mail if state is not None else OwnMail()
        known = mail.requests.get(asked) or mail.responses.get(asked)
        if known is not None:
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
            raise perhaps_written(error, asked) from error
        return Asked.of(asked, request)
