"""`PlacementClient`: what an operator, a schedule or a sensor asks of a job.

Works on metadata alone, so an unmodified Samza AM and our coordinator are served alike.
"""

from __future__ import annotations

import time
import uuid as uuid_module
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Self, Unpack

from samza_dagster.client import tidying
from samza_dagster.client.access import JobAccess, wall_clock_ms
from samza_dagster.client.audit_history import AuditSource
from samza_dagster.client.checks import (
    Permitted,
    check_budget,
    expiry_ms,
    find_deployment,
    find_processor,
    legal_destination,
)
from samza_dagster.client.following import Following, Looks
from samza_dagster.client.host_clocks import Report, standing_reports
from samza_dagster.client.host_words import read_host_words
from samza_dagster.client.job_view import with_state
from samza_dagster.client.mailbox import Mailbox
from samza_dagster.client.observations import (
    read_checkpoints_end,
    read_input_lag,
    read_lag,
    read_progress,
)
from samza_dagster.client.own_asking import OwnAsking
from samza_dagster.client.own_requests import OwnRequests
from samza_dagster.client.plan import Plan, make_plan
from samza_dagster.client.request_uuid import canonical_uuid, same_request
from samza_dagster.client.state_source import CoordinatorState, StateSource
from samza_dagster.client.stream_reader import StreamReader
from samza_dagster.client.views import (
    InputLag,
    JobView,
    Look,
    ProcessorProgress,
    ProcessorView,
    ReplicaLag,
)
from samza_dagster.errors import InvalidInput, MissingPrerequisite, Unreachable
from samza_dagster.metadata.cleanup import Removal
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.interface import MetadataStore
from samza_dagster.metadata.job_topics import JobTopics
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.metadata.resource_manager import ResourceManager
from samza_dagster.model import LocalityModel, PlacementRequest
from samza_dagster.model.naming import ANY_HOST, DESTINATION_WORDS


class PlacementClient(Following, OwnAsking):
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
        # UUID → where the stream ended before this client wrote the request, and its deployment.
        self._written: dict[str, tuple[int, str]] = {}
        self._looks = Looks()
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
        audit: Callable[[], AuditSource] | None = None,
        yarn: ResourceManager | None = None,
        named_hosts: tuple[str, ...] = (),
    ) -> Self:
        """A client over stores that exist already.

        Without `topics` it knows no lag, without `mailbox` it asks only what Samza's wire has,
        without `audit` it doesn't know which request has spun up a standby.
        """
        return cls(
            JobAccess(
                store,
                job_name,
                job_id,
                state,
                topics,
                now_ms,
                monotonic,
                mailbox=mailbox,
                audit=audit,
                yarn=yarn,
                named_hosts=named_hosts,
            )
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

    def known_view(self) -> JobView:
        """The job as far as it can be read, to look at: nothing is decided by it.

        Without our coordinator's word while its state topic can't be read; `unread` says why.
        """
        base = self._base_view()
        try:
            return self._view_over(base)[0]
        except Unreachable as error:
            return replace(base, unread=error.seen)

    def _base_view(self) -> JobView:
        reader = StreamReader(self._store)
        base = reader.view(self._job.job_name, self._job.job_id, self._job.now_ms())
        return replace(base, fatal=tuple(dict.fromkeys(self._job.bad_keys)))

    def _view(self) -> tuple[JobView, CoordinatorState | None]:
        return self._view_over(self._base_view())

    def _view_over(self, base: JobView) -> tuple[JobView, CoordinatorState | None]:
        state = self._job.state.read() if self._job.state is not None else None
        if state is None or base.deployment_id not in (None, state.deployment_id):
            # Another coordinator deployed the job since.
            return self._job.under_an_am(base), None
        view = with_state(
            base,
            deployment_id=state.deployment_id,
            limits=state.limits,
            groups=state.groups,
            hosts=state.hosts,
            now_ms=self._job.now_ms(),
            own_requests=state.mail.requests,
            leader=state.leader,
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
        hold: bool = False,
        **permitted: Unpack[Permitted],
    ) -> Plan:
        """What `place`, or with `hold` `reserve`, would ask, and a verdict on every host. Nothing is written.

        Raises `InvalidInput` for an unknown processor or deployment; a destination that
        a rule forbids is a plan whose `refusal` says why.
        """
        return make_plan(
            self.view(),
            processor_id,
            destination,
            deployment_id,
            hold=hold,
            **permitted,
        )

    def place(
        self,
        processor_id: str,
        destination: str,
        *,
        deployment_id: str | None = None,
        request_expiry_s: float | None = None,
        uuid: str | None = None,
        on_notice: Callable[[str], None] = lambda _: None,
        **permitted: Unpack[Permitted],
    ) -> PlacementRequest:
        """Writes one placement request, after every rule that can be checked was.

        Where any legal host is taken instead (`Permitted`), the request says `ANY_HOST`, or the host
        that this is. `on_notice` is told, before it is asked, how much is spent of the stops that
        Samza's AM allows.

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
                chosen = known.destination_host not in DESTINATION_WORDS - {ANY_HOST}
                if chosen and (permitted.get("or_any_legal") or destination == ANY_HOST):
                    destination = known.destination_host
                return same_request(known, processor_id, destination)
        view, state = self._view()
        deployment = find_deployment(view, deployment_id)
        taken = state is not None and asked in state.uuids  # its response was cleaned up since
        if not taken:
            processor = find_processor(view, processor_id)
            destination = legal_destination(view, processor, destination, **permitted).asked
            beyond = permitted.get("beyond_budget", False)
            spent = check_budget(view, processor_id, beyond_budget=beyond)
            if spent:
                on_notice(spent)
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
        self._written[asked] = self._store.end_position(), deployment
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

    def remembered(self) -> frozenset[str]:
        """UUIDs that the coordinator has taken lately: asked again, they write nothing.

        Empty under Samza's own AM. One that has no response on record had one, which was cleaned up.
        """
        state = self._view()[1]
        return state.uuids if state is not None else frozenset()

    def unneeded(self, *, older_than_s: float) -> tuple[Removal, ...]:
        """Placement messages that nobody needs any more; see `tidying.unneeded`."""
        view, state = self._view()
        if view.deployment_id is None:
            raise InvalidInput(
                "the running deployment",
                seen="no app.run.id in the coordinator stream",
                fix="deploy the job once: what is foreign can't be told before",
            )
        return tidying.unneeded(
            self._placement,
            state,
            view,
            older_than_ms=round(older_than_s * 1000),
            counted=[p for p, budget in view.stop_budgets.items() if budget.counted],
        )

    def remove(self, removals: Iterable[Removal]) -> int:
        """Deletes these messages, one by one; returns how many. Repeating it does no harm."""
        return tidying.remove(self._placement, self._job.mailbox, removals)

    def locality(self) -> LocalityModel:
        """The host that each container reported last, as Samza's `/locality` serves it.

        Raises `Refused` when the coordinator stream is another job's.
        """
        return StreamReader(self._store).locality(self._job.job_name, self._job.job_id)

    def reports(self) -> tuple[list[Report], list[Unreachable]]:
        """What containers have reported of late, as it stands in topics; and what couldn't be read."""
        return standing_reports(self._job)

    def lag(self) -> tuple[ReplicaLag, ...]:
        """Lag of every replica of every store partition; `basis` says how it is known.

        A replica of which something can't be read has a `reason`, the others are as ever; so has
        one that has reported nothing new while this process looked, for three of its intervals.
        """
        topics, view = self._need_topics(), self.view()
        lags, commits = read_lag(view, StreamReader(self._store), topics)
        return self._job.seen.judged(
            lags,
            deployment_id=view.deployment_id,
            commits=commits,
            now_s=self._job.monotonic(),
            patience_s=view.report_patience_s,
        )

    def input_lag(self) -> tuple[InputLag, ...]:
        """How far each active is behind its input, by its newest commit of the last ten minutes.

        Raises `Unreachable` when the commits can't be read.
        """
        return read_input_lag(self.view(), self._need_topics())

    def look(self) -> Look:
        """The job with its lags and its hosts' last words: what a sensor needs, read once.

        A client over metadata stores alone leaves the lags out; where those of the replicas or
        those of the input can't be read at all, `unread` says why, and the rest stands.
        """
        view, topics = self.view(), self._job.topics
        look = Look(view, host_words=read_host_words(view.leader))
        if topics is None:
            return look
        unread: list[str] = []
        try:
            lags, _ = read_lag(view, StreamReader(self._store), topics)
            look = replace(look, lags=self._job.seen.bounded(lags))
        except Unreachable as error:
            unread.append(error.seen)
        try:
            look = replace(look, input_lags=read_input_lag(view, topics))
        except Unreachable as error:
            unread.append(error.seen)
        return replace(look, unread="; ".join(dict.fromkeys(unread)) or None)

    def checkpoints_end(self) -> int:
        """Where the checkpoint topic ends now: what is committed later stands there or behind.

        Read once a process is known dead, it divides its commits from its successor's.
        """
        return read_checkpoints_end(self.view(), self._need_topics())

    def processing(self, processor_id: str, since: int) -> ProcessorProgress:
        """Whether an active processor committed progress on its input from offset `since` on.

        `since` is of the checkpoint topic, as `checkpoints_end` gave it: the times of commits are
        their hosts'.

        Raises `InvalidInput` for an unknown processor, and for a standby: it processes nothing.
        """
        topics = self._need_topics()
        view, processor = self.processor(processor_id)
        return read_progress(view, processor, topics, since=since)

    def _need_topics(self) -> JobTopics:
        if self._job.topics is None:
            raise MissingPrerequisite(
                "offsets of the job's topics",
                seen="a client over metadata stores alone",
                fix="PlacementClient(connection), or over(…, topics=…)",
            )
        return self._job.topics
