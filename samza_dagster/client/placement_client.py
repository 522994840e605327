"""`PlacementClient`: what an operator, a schedule or a sensor asks of a job.

Works on metadata alone, so an unmodified Samza AM and our coordinator are served alike.
"""

from __future__ import annotations

import time
import uuid as uuid_module
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Self

from samza_dagster.client.access import JobAccess, wall_clock_ms
from samza_dagster.client.asked import Asked
from samza_dagster.client.checks import (
    expiry_ms,
    find_deployment,
    find_processor,
    legal_destination,
)
from samza_dagster.client.job_view import with_state
from samza_dagster.client.mailbox import Mailbox
from samza_dagster.client.observations import read_lag, read_progress
from samza_dagster.client.own_checks import (
    check_about,
    check_fail_over,
    check_start_standby,
    check_stop_standby,
    require_our_coordinator,
)
from samza_dagster.client.own_plan import make_own_plan
from samza_dagster.client.own_requests import OwnRequests, Wanted
from samza_dagster.client.plan import Plan, make_plan
from samza_dagster.client.request_uuid import canonical_uuid, same_request
from samza_dagster.client.responses import (
    OnResponse,
    OwnResponses,
    ResponseSource,
    ResponseWait,
    StreamResponses,
    Until,
    terminal,
)
from samza_dagster.client.state_source import CoordinatorState, StateSource
from samza_dagster.client.stream_reader import StreamReader
from samza_dagster.client.views import (
    ActionView,
    JobView,
    ProcessorView,
    Progress,
    ReplicaLag,
)
from samza_dagster.errors import InvalidInput, MissingPrerequisite, Unreachable
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.cleanup import Removal, Where, finished_or_foreign
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.interface import MetadataStore
from samza_dagster.metadata.job_topics import JobTopics
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.model import (
    LocalityModel,
    PlacementRequest,
    PlacementResponse,
    ProcessorLocality,
)
from samza_dagster.model.naming import ANY_HOST, STANDBY
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement.reading import in_flight


class PlacementClient:
    """Asks and watches one job. Thread-safe as its stores are; close it, or use it in `with`.

    Every call raises `Unreachable` when no broker answers within 10 s and `InvalidInput`
    when the job's coordinator stream doesn't exist.
    """

    def __init__(self, job: Connection | JobAccess) -> None:
        self._job = job if isinstance(job, JobAccess) else JobAccess.of(job)
        self._store = self._job.store
        self._placement = ContainerPlacementMetadataStore(
            self._store, now_ms=self._job.now_ms, on_malformed=lambda _: None
        )
        # UUID → where the stream ended before this client wrote the request.
        self._written: dict[str, int] = {}
        self._own = OwnRequests(self._job, self._view)

    @classmethod
    def over(
        cls,
        store: MetadataStore,
        *,
        job_name: str,
        job_id: str = "1",
        state: StateSource | None = None,
        topics: JobTopics | None = None,
        now_ms: Callable[[], int] = wall_clock_ms,
        monotonic: Callable[[], float] = time.monotonic,
        mailbox: Mailbox | None = None,
    ) -> Self:
        """A client over stores that exist already.

        Without `topics` it knows no lag, without `mailbox` it asks only what Samza's wire has.
        """
        return cls(
            JobAccess(store, job_name, job_id, state, topics, now_ms, monotonic, mailbox=mailbox)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends watches and releases connections."""
        self._job.close()

    def prepare(self) -> None:
        """Gets ready to place: a request written half a second later isn't waited for. Returns at once."""
        self._store.prepare_writes()

    def view(self) -> JobView:
        """The job now: our coordinator's word where it leads, else the coordinator stream's."""
        return self._view()[0]

    def _view(self) -> tuple[JobView, CoordinatorState | None]:
        base = StreamReader(self._store).view(self._job.job_name, self._job.job_id)
        base = replace(base, fatal=tuple(dict.fromkeys(self._job.bad_keys)))
        state = self._job.state.read() if self._job.state is not None else None
        if state is None or base.deployment_id not in (None, state.deployment_id):
            return base, None  # another coordinator deployed the job since
        view = with_state(
            base,
            deployment_id=state.deployment_id,
            limits=state.limits,
            groups=state.groups,
            hosts=state.hosts,
            now_ms=self._job.now_ms(),
            own_requests=state.mail.requests,
        )
        return view, state

    def processor(self, processor_id: str) -> tuple[JobView, ProcessorView]:
        """The job and one of its processors; raises `InvalidInput` that names the known ones."""
        view = self.view()
        return view, find_processor(view, processor_id)

    def plan(
        self,
        processor_id: str,
        destination: str,
        deployment_id: str | None = None,
        *,
        allow_unknown_host: bool = False,
        or_any_legal: bool = False,
    ) -> Plan:
        """What `place` would ask, and a verdict on every host. Nothing is written.

        Raises `InvalidInput` for an unknown processor or deployment; a destination that
        a rule forbids is a plan whose `refusal` says why.
        """
        return make_plan(
            self.view(),
            processor_id,
            destination,
            deployment_id,
            allow_unknown_host=allow_unknown_host,
            or_any_legal=or_any_legal,
        )

    def place(
        self,
        processor_id: str,
        destination: str,
        *,
        deployment_id: str | None = None,
        request_expiry_s: float | None = None,
        uuid: str | None = None,
        allow_unknown_host: bool = False,
        or_any_legal: bool = False,
    ) -> PlacementRequest:
        """Writes one placement request, after every rule that can be checked was.

        With `or_any_legal` a standby whose destination a rule forbids goes to any legal
        host, as SEP-22 has it; the request then says `ANY_HOST`.

        Returns it as written. A `uuid` that the stream knows already writes nothing and
        returns what stands: to repeat a call is safe. Raises `InvalidInput` (processor,
        deployment, host, expiry, a UUID that another request has) and `Refused` (a
        placement rule); nothing was written then.
        """
        expiry = expiry_ms(request_expiry_s)
        self.prepare()  # beside the reads that come first
        asked = canonical_uuid(uuid) if uuid is not None else str(uuid_module.uuid4())
        if uuid is not None:
            known = self._known(asked)
            if known is not None:
                if or_any_legal and known.destination_host == ANY_HOST:
                    destination = ANY_HOST
                return same_request(known, processor_id, destination)
        view, state = self._view()
        deployment = find_deployment(view, deployment_id)
        taken = state is not None and asked in state.uuids  # its response was cleaned up since
        if not taken:
            processor = find_processor(view, processor_id)
            destination = legal_destination(
                view,
                processor,
                destination,
                allow_unknown_host=allow_unknown_host,
                or_any_legal=or_any_legal,
            )
        request = PlacementRequest(
            uuid=asked,
            deployment_id=deployment,
            processor_id=processor_id,
            destination_host=destination,
            timestamp=self._job.now_ms(),
            request_expiry=expiry,
        )
        if taken:
            return request
        self._written[asked] = self._store.end_position()
        try:
            self._placement.write_request(
                deployment,
                processor_id,
                destination,
                request_expiry_ms=expiry,
                timestamp_ms=request.timestamp,
                uuid=asked,
            )
        except Unreachable as error:
            raise Unreachable(
                error.asked,
                seen=f"{error.seen}; whether the request was written isn't known",
                fix=f"{error.fix}; then ask again with UUID {asked}: nothing is done twice",
            ) from error
        return request

    def _known(self, uuid: str) -> PlacementRequest | PlacementResponse | None:
        return self._placement.read_request(uuid) or self._placement.read_response(uuid)

    def reserve(
        self,
        processor_id: str,
        destination: str,
        *,
        deployment_id: str | None = None,
        request_expiry_s: float | None = None,
        uuid: str | None = None,
    ) -> Asked:
        """Asks for a move that waits, once its destination is held, for a `commit`.

        The container isn't touched before that. A hold that is neither committed nor
        released ends FAILED after `request_expiry_s` (None: the job's request time-out).
        Raises as `place` does; only our own coordinator knows it.
        """

        def check(view: JobView) -> Wanted:
            require_our_coordinator(view, f"place {processor_id} --hold")
            processor = find_processor(view, processor_id)
            legal_destination(view, processor, destination)
            return Wanted(processor_id, destination, hold=True)

        return self._own.ask(
            RequestKind.PLACE,
            check,
            processor_id=processor_id,
            uuid=uuid,
            deployment_id=deployment_id,
            request_expiry_s=request_expiry_s,
        )

    def commit(self, reservation: str, *, uuid: str | None = None) -> Asked:
        """Lets a held reservation go on: stop, then start on the host that is held."""
        return self._about(RequestKind.COMMIT, reservation, uuid)

    def release(self, reservation: str, *, uuid: str | None = None) -> Asked:
        """Gives a held reservation back; its container was never touched."""
        return self._about(RequestKind.RELEASE, reservation, uuid)

    def cancel(self, request: str, *, uuid: str | None = None) -> Asked:
        """Ends a request that waits or reserves; refused once its container is being stopped."""
        return self._about(RequestKind.CANCEL, request, uuid)

    def start_standby(
        self,
        processor_id: str,
        destination: str = ANY_HOST,
        *,
        request_expiry_s: float | None = None,
        uuid: str | None = None,
    ) -> Asked:
        """Spins up one more standby of an active, on a host or on any legal one."""

        def check(view: JobView) -> Wanted:
            active, _, _ = check_start_standby(view, processor_id, destination)
            return Wanted(active.processor_id, destination)

        return self._own.ask(
            RequestKind.START_STANDBY,
            check,
            processor_id=processor_id,
            uuid=uuid,
            request_expiry_s=request_expiry_s,
        )

    def stop_standby(self, processor_id: str, *, uuid: str | None = None) -> Asked:
        """Stops a standby and removes it from the job; an active's id stands for its only one."""

        def check(view: JobView) -> Wanted:
            standby = check_stop_standby(view, processor_id)
            return Wanted(standby.processor_id, standby.host or ANY_HOST)

        return self._own.ask(RequestKind.STOP_STANDBY, check, uuid=uuid)

    def fail_over(self, processor_id: str, *, uuid: str | None = None) -> Asked:
        """Moves an active onto the host of the standby soonest ready, which gives way."""

        def check(view: JobView) -> Wanted:
            active, _ = check_fail_over(view, processor_id)
            return Wanted(active.processor_id, STANDBY)

        return self._own.ask(RequestKind.FAIL_OVER, check, processor_id=processor_id, uuid=uuid)

    def plan_own(self, kind: RequestKind, processor_id: str, destination: str = ANY_HOST) -> Plan:
        """What `start_standby`, `stop_standby` or `fail_over` would ask. Nothing is written."""
        return make_own_plan(self.view(), kind, processor_id, destination)

    def check_about(self, kind: RequestKind, request: str) -> ActionView:
        """The action that a commit, release or cancel would be about; raises when it is refused."""
        return self._action(self.view(), kind, canonical_uuid(request))

    def _action(self, view: JobView, kind: RequestKind, target: str) -> ActionView:
        action = next((a for a in (*view.actions, *view.queued) if a.uuid == target), None)
        return check_about(view, kind, target, action=action, response=self.response(target))

    def _about(self, kind: RequestKind, about: str, uuid: str | None) -> Asked:
        target = canonical_uuid(about)

        def check(view: JobView) -> Wanted:
            action = self._action(view, kind, target)
            return Wanted(action.processor_id, action.destination, refers_to=target)

        return self._own.ask(kind, check, uuid=uuid)

    def request(self, uuid: str) -> PlacementRequest | None:
        """The request in the coordinator stream while no coordinator has taken it; None after that."""
        return self._placement.read_request(canonical_uuid(uuid))

    def own_request(self, uuid: str) -> Asked | None:
        """The request of our own while no coordinator has taken it; None after that."""
        asked = canonical_uuid(uuid)
        found = self._own.mail().requests.get(asked)
        return None if found is None else Asked.of(asked, found)

    def response(self, uuid: str) -> PlacementResponse | None:
        """The newest response, in either topic; None while there is none."""
        asked = canonical_uuid(uuid)
        return self._placement.read_response(asked) or self._own.mail().responses.get(asked)

    def wait(
        self,
        uuid: str,
        *,
        timeout_s: float,
        on_response: OnResponse | None = None,
        until: Until = terminal,
    ) -> PlacementResponse:
        """The first response that `until` accepts (a terminal one), within `timeout_s`.

        `on_response` gets each status once, in order: all of them for a request that this
        client wrote, else the present one and those after it. Raises `DeadlineExceeded`
        that tells what was seen last; the action may go on.
        """
        asked = canonical_uuid(uuid)
        own = self._is_own(asked)
        written = self._own.written if own else self._written
        source: ResponseSource = (
            OwnResponses(self._own.mailbox(), self._own.mail)
            if own
            else StreamResponses(self._placement, self._store.end_position)
        )
        wait = ResponseWait(
            source,
            asked,
            on_response=on_response,
            until=until,
            monotonic=self._job.monotonic,
        )
        return wait.run(timeout_s, written_at=written.get(asked))

    def _is_own(self, uuid: str) -> bool:
        if uuid in self._own.written or uuid in self._written:
            return uuid in self._own.written
        if self._job.mailbox is None or self._known(uuid) is not None:
            return False
        mail = self._own.mail()
        return uuid in mail.requests or uuid in mail.responses

    def history(
        self, processor_id: str | None = None, *, limit: int | None = None
    ) -> tuple[PlacementResponse, ...]:
        """The newest response of each request, oldest first; of one processor if named.

        `limit` keeps the newest ones. Records that can't be read are left out.
        """
        both = (*self._placement.responses(), *self._own.mail().responses.values())
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
        """The newest answer to each request of our own from `position` on, and where to go on.

        Positions are the state topic's. None reads nothing and tells where its answers end.
        """
        mail = self._own.mail()
        found = sorted((mail.positions[uuid], uuid) for uuid in mail.responses)
        end = found[-1][0] + 1 if found else 0
        start = end if position is None else position
        return tuple((at, mail.responses[uuid]) for at, uuid in found if at >= start), end

    def unneeded(self, *, older_than_s: float) -> tuple[Removal, ...]:
        """Placement messages that nobody needs any more; see `finished_or_foreign`."""
        view, state = self._view()
        if view.deployment_id is None:
            raise InvalidInput(
                "the running deployment",
                seen="no app.run.id in the coordinator stream",
                fix="deploy the job once: what is foreign can't be told before",
            )
        mail = state.mail if state is not None else self._own.mail()
        return finished_or_foreign(
            requests=self._placement.requests(),
            responses=self._placement.responses(),
            own_requests=mail.requests,
            own_responses=mail.responses,
            deployment_id=view.deployment_id,
            in_flight=in_flight(state.groups.values()) if state is not None else (),
            now_ms=self._job.now_ms(),
            older_than_ms=round(older_than_s * 1000),
        )

    def remove(self, removals: Iterable[Removal]) -> int:
        """Deletes these messages, one by one; returns how many. Repeating it does no harm."""
        count = 0
        for removal in removals:
            is_request = removal.kind == "request"
            if removal.where is Where.STATE_TOPIC:
                box = self._own.mailbox()
                (box.delete_request if is_request else box.delete_response)(removal.uuid)
            elif is_request:
                self._placement.delete_request(removal.uuid)
            else:
                self._placement.delete_response(removal.uuid)
            count += 1
        return count

    def locality(self) -> LocalityModel:
        """The host that each container reported last, as Samza's `/locality` serves it."""
        hosts = StreamReader(self._store).values(stream.SET_CONTAINER_HOST, "host")
        return LocalityModel(
            processor_localities={
                processor_id: ProcessorLocality(id=processor_id, host=host)
                for processor_id, host in sorted(hosts.items())
            }
        )

    def lag(self) -> tuple[ReplicaLag, ...]:
        """Lag of every replica of every store partition; `basis` says how it is known."""
        topics = self._need_topics()
        return read_lag(self.view(), StreamReader(self._store), topics, now_ms=self._job.now_ms())

    def processing(self, processor_id: str, since_ms: int) -> Progress:
        """Whether an active processor committed progress on its input after `since_ms`.

        Raises `InvalidInput` for an unknown processor, and for a standby: it processes nothing.
        """
        topics = self._need_topics()
        view, processor = self.processor(processor_id)
        return read_progress(view, processor, topics, since_ms=since_ms)

    def _need_topics(self) -> JobTopics:
        if self._job.topics is None:
            raise MissingPrerequisite(
                "offsets of the job's topics",
                seen="a client over metadata stores alone",
                fix="PlacementClient(connection), or over(…, topics=…)",
            )
        return self._job.topics
