"""`PlacementClient`: what an operator, a schedule or a sensor asks of a job.

Works on metadata alone, so an unmodified Samza AM and our coordinator are served alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any, Self, Unpack

from samza_dagster.client import tidying
from samza_dagster.client.access import JobAccess, needed
from samza_dagster.client.checkpoints import ProcessorProgress
from samza_dagster.client.checks import Permitted, find_processor
from samza_dagster.client.host_clocks import StandingReport, standing_reports
from samza_dagster.client.look import read_look
from samza_dagster.client.observations import read_checkpoints_end, read_lag, read_progress
from samza_dagster.client.own_checks import (
    check_about,
    check_fail_over,
    check_reserve,
    check_start_standby,
    check_stop_standby,
)
from samza_dagster.client.plan import Plan, make_own_plan, make_plan
from samza_dagster.client.readiness import (
    PublishedReadiness,
    StandbysNow,
    standbys_about,
    standbys_now,
)
from samza_dagster.client.requests import (
    PlaceOptions,
    Request,
    RequestWriter,
    Wanted,
    canonical_uuid,
)
from samza_dagster.client.responses import terminal
from samza_dagster.client.views import ActionView, JobView, Look, ReplicaLag
from samza_dagster.client.waiting import OnResponse, Until, Waiting
from samza_dagster.errors import Unreachable
from samza_dagster.lag import NewestReadiness
from samza_dagster.metadata.cleanup import Removal
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.interface import MetadataStore
from samza_dagster.metadata.job_topics import JobTopics
from samza_dagster.model import LocalityModel, PlacementRequest, PlacementResponse
from samza_dagster.model.naming import ANY_HOST
from samza_dagster.model.own_requests import RequestKind

# Statuses with their positions, in order, and the position to go on from.
_Positioned = tuple[tuple[tuple[int, PlacementResponse], ...], int]


class PlacementClient:
    """Asks and watches one job. Thread-safe as its stores are; close it, or use it in `with`.

    Every call raises `Unreachable` when no broker answers within 10 s and `InvalidInput`
    when the job's coordinator stream doesn't exist.
    """

    def __init__(self, job: Connection | JobAccess) -> None:
        self._job = job if isinstance(job, JobAccess) else JobAccess.of(job)
        self._store = self._job.store
        self._requests = RequestWriter(self._job)
        self._waiting = Waiting(self._job, self._requests)
        self._published = PublishedReadiness(self._job)

    @classmethod
    def over(cls, store: MetadataStore, *, job_name: str, **parts: Any) -> Self:
        """A client over stores that exist already; `parts` are those of `JobAccess`, by name.

        Without `topics` it knows no lag, without `mailbox` it asks only what Samza's wire has.
        """
        return cls(JobAccess(store, job_name, **parts))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends watches and releases connections."""
        self._job.close()

    def prepare(self) -> None:
        """Gets ready to place: a request written half a second later isn't waited for. Returns at once."""
        self._store.prepare_writes()

    def view(self) -> JobView:
        """The job now: our coordinator's word where it leads, else the coordinator stream's."""
        return self._job.read()[0]

    def known_view(self) -> JobView:
        """The job as far as it can be read, to look at: nothing is decided by it.

        Without our coordinator's word while its state topic can't be read; `unread` says why.
        """
        return self._job.known_view()

    def plan(
        self,
        processor_id: str,
        destination: str,
        deployment_id: str | None = None,
        *,
        hold: bool = False,
        **permitted: Unpack[Permitted],
    ) -> Plan:
        """Plan `place`, or with `hold` `reserve`, with a verdict on every host. Writes nothing.

        Raises `InvalidInput` for an unknown processor or deployment; a destination that
        a rule forbids gives a plan with a `refusal` that gives the reason.
        """
        view = self.view()
        return make_plan(view, processor_id, destination, deployment_id, hold=hold, **permitted)

    def explain(self, processor_id: str, destination: str) -> Plan:
        """The plan of a placement, and beside it how soon each standby that it is about would be ready."""
        plan = self.plan(processor_id, destination)
        notices = self.standbys_now(processor_id).notices
        return replace(plan, notices=(*plan.notices, *notices))

    def place(
        self, processor_id: str, destination: str, **options: Unpack[PlaceOptions]
    ) -> Request:
        """Write one placement request after all checks; return it as written.

        If any legal host may be taken instead (`Permitted`), the request says `ANY_HOST`, or names that
        host. A `uuid` that the stream has already writes nothing and returns that request, so repeating
        a call is safe. Raises `InvalidInput` (processor, deployment, host, expiry, a UUID of another
        request) and `Refused` (a rule); then nothing was written.
        """
        return self._requests.place(processor_id, destination, **options)

    # Those up to `check_about` Samza's wire has no form for: `Refused` where its AM coordinates.

    def reserve(
        self,
        processor_id: str,
        destination: str,
        *,
        deployment_id: str | None = None,
        request_expiry_s: float | None = None,
        uuid: str | None = None,
    ) -> Request:
        """Asks for a move that waits, once its destination is held, for a `commit`.

        The container isn't touched before. Without a commit or release it ends FAILED after
        `request_expiry_s` (None: the job's request time-out).
        """
        return self._requests.ask(
            RequestKind.PLACE,
            lambda view: check_reserve(view, processor_id, destination),
            processor_id=processor_id,
            uuid=uuid,
            deployment_id=deployment_id,
            request_expiry_s=request_expiry_s,
        )

    def commit(self, reservation: str, *, uuid: str | None = None) -> Request:
        """Lets a held reservation go on: stop, then start on the host that is held."""
        return self.ask_about(RequestKind.COMMIT, reservation, uuid)

    def release(self, reservation: str, *, uuid: str | None = None) -> Request:
        """Gives a held reservation back; its container was never touched."""
        return self.ask_about(RequestKind.RELEASE, reservation, uuid)

    def cancel(self, request: str, *, uuid: str | None = None) -> Request:
        """Ends a request that waits or reserves; refused once its container is being stopped."""
        return self.ask_about(RequestKind.CANCEL, request, uuid)

    def start_standby(
        self,
        processor_id: str,
        destination: str = ANY_HOST,
        *,
        request_expiry_s: float | None = None,
        uuid: str | None = None,
    ) -> Request:
        """Spins up one more standby of an active, on a host or on any legal one."""
        return self._requests.ask(
            RequestKind.START_STANDBY,
            lambda view: check_start_standby(view, processor_id, destination),
            processor_id=processor_id,
            uuid=uuid,
            request_expiry_s=request_expiry_s,
        )

    def stop_standby(self, processor_id: str, *, uuid: str | None = None) -> Request:
        """Stop a standby and remove it from the job; an active's id means its only standby."""
        return self._requests.ask(
            RequestKind.STOP_STANDBY, lambda view: check_stop_standby(view, processor_id), uuid=uuid
        )

    def fail_over(
        self, processor_id: str, *, uuid: str | None = None, execution_id: str | None = None
    ) -> Request:
        """Moves an active onto the host of the standby soonest ready, which gives way.

        With `execution_id` only while the active is that incarnation: the coordinator
        refuses it, or fails it at its turn, once another one has started.
        """
        return self._requests.ask(
            RequestKind.FAIL_OVER,
            lambda view: check_fail_over(view, processor_id, execution_id),
            processor_id=processor_id,
            uuid=uuid,
        )

    def plan_own(self, kind: RequestKind, processor_id: str, destination: str = ANY_HOST) -> Plan:
        """Plan `start_standby`, `stop_standby` or `fail_over`. Writes nothing."""
        return make_own_plan(self.view(), kind, processor_id, destination)

    def check_about(self, kind: RequestKind, request: str) -> ActionView:
        """The action that a commit, release or cancel would be about; raises when it is refused."""
        target = canonical_uuid(request)
        return check_about(self.view(), kind, target, self.response(target))

    def ask_about(self, kind: RequestKind, request: str, uuid: str | None = None) -> Request:
        """Commits, releases or cancels another request, by its UUID."""
        target = canonical_uuid(request)

        def check(view: JobView) -> Wanted:
            action = check_about(view, kind, target, self.response(target))
            return Wanted(action.processor_id, action.destination, refers_to=target)

        return self._requests.ask(kind, check, uuid=uuid)

    def request(self, uuid: str) -> PlacementRequest | None:
        """The request in the coordinator stream while no coordinator has taken it; None after that."""
        return self._requests.placement.read_request(canonical_uuid(uuid))

    def own_request(self, uuid: str) -> Request | None:
        """The request of our own while no coordinator has taken it; None after that."""
        asked = canonical_uuid(uuid)
        found = self._requests.mail().requests.get(asked)
        return None if found is None else Request.of(asked, found)

    def wrote(self, uuid: str) -> bool:
        """This client wrote the request; one that was asked before was written by no call of it."""
        return canonical_uuid(uuid) in self._requests.written

    def response(self, uuid: str) -> PlacementResponse | None:
        """The newest response, in either topic; None while there is none."""
        return self._waiting.response(canonical_uuid(uuid))

    def wait(
        self,
        uuid: str,
        *,
        timeout_s: float,
        on_response: OnResponse | None = None,
        until: Until = terminal,
        on_notice: Callable[[str], object] = lambda _: None,
        on_look: Callable[[float], object] = lambda _: None,
    ) -> PlacementResponse:
        """Return the first response that `until` accepts (a terminal one), within `timeout_s`.

        `on_response` gets each status once, in order: all of them for a request that this client wrote,
        else the present one and those after it. Under Samza's AM, `on_notice` gets what holds the
        request up, once (`ActionView.trouble`). Without a response `on_look` gets the seconds left,
        twice a second. Raises `DeadlineExceeded` with what was seen last; the action may continue.
        Raises `ActionFailed` when the request's deployment is over or the job is dead, since no answer
        can come then.
        """
        asked = canonical_uuid(uuid)
        return self._waiting.wait(asked, timeout_s, on_response, until, on_notice, on_look)

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
        return self._waiting.history(processor_id, limit, of_stream_alone)

    def responses_since(self, position: int | None) -> _Positioned:
        """Each status written from `position` on; None reads nothing and tells where the stream ends."""
        if position is None:
            return (), self._store.end_position()
        return self._requests.placement.responses_since(position)

    def own_responses_since(self, position: int | None) -> _Positioned:
        """The same of answers to requests of our own, as far as compaction has left them."""
        return self._requests.mail().answers_since(position)

    def remembered(self) -> frozenset[str]:
        """UUIDs that the coordinator has taken lately: asked again, they write nothing.

        Empty under Samza's own AM. One that has no response on record had one, which was cleaned up.
        """
        state = self._job.read()[1]
        return state.uuids if state is not None else frozenset()

    def unneeded(self, *, older_than_s: float) -> tuple[Removal, ...]:
        """Return placement messages that are no longer needed; see `tidying.unneeded`."""
        return tidying.unneeded(self._requests.placement, *self._job.read(), older_than_s)

    def remove(self, removals: Iterable[Removal]) -> int:
        """Deletes these messages, one by one; returns how many. Repeating it does no harm."""
        return tidying.remove(self._requests.placement, self._job.mailbox, removals)

    def locality(self) -> LocalityModel:
        """The host that each container reported last, as Samza's `/locality` serves it.

        Raises `Refused` when the coordinator stream is another job's.
        """
        return self._job.reader().locality(self._job.job_name, self._job.job_id)

    def reports(self) -> tuple[list[StandingReport], list[Unreachable]]:
        """Return the containers' latest reports in the topics, and what couldn't be read."""
        return standing_reports(self._job)

    def lag(self) -> tuple[ReplicaLag, ...]:
        """Return the lag of every replica of every store partition; `basis` says how it is known.

        A replica has a `reason` if something about it can't be read, or if it has reported nothing new
        for three of its intervals while this process looked. Other replicas aren't affected.
        """
        topics, view = self._need_topics(), self.view()
        lags, commits = read_lag(view, self._job.reader(), topics)
        return self._job.seen.judged(lags, view, commits=commits, now_s=self._job.monotonic())

    def readiness(self, lags: Collection[ReplicaLag]) -> NewestReadiness:
        """Return the readiness of standbys that snapshots have published, beside present lags.

        Readiness that is too old by the newest of these reports says so and isn't used. Empty if none
        is published or it can't be read; a job's lags are then judged without it. It is read again
        after half a minute.
        """
        return self._published.beside(lags)

    def standbys_now(self, processor_id: str) -> StandbysNow:
        """Its standbys (or itself, if it is one), the soonest ready first, and a sentence on each.

        By the published readiness and the lags of now, which are read only where there is one: without it
        there are no sentences, and the standbys come as the job has them.
        """
        view = self.view()
        standbys = standbys_about(view, find_processor(view, processor_id))
        if not self._published.is_there(standbys):
            return StandbysNow(tuple(standbys))
        lags = self.lag()
        return standbys_now(self.readiness(lags), lags, standbys)

    def look(self) -> Look:
        """Return the job with its lags and its hosts' last words: what a sensor needs, read once.

        A client over metadata stores alone leaves the lags out. If the lags of the replicas or of the
        input can't be read at all, `unread` gives the reason, and the rest is there.
        """
        return read_look(self._job, self.view())

    def checkpoints_end(self) -> int:
        """Return the present end of the checkpoint topic; later commits are at it or after it.

        Read once a process is known dead, it divides its commits from its successor's.
        """
        return read_checkpoints_end(self.view(), self._need_topics())

    def processing(self, processor_id: str, since: int) -> ProcessorProgress:
        """Return whether an active processor committed progress on its input from offset `since` on.

        `since` is of the checkpoint topic, as `checkpoints_end` gave it: the times of commits are
        their hosts'.

        Raises `InvalidInput` for an unknown processor, and for a standby: it processes nothing.
        """
        topics, view = self._need_topics(), self.view()
        return read_progress(view, find_processor(view, processor_id), topics, since=since)

    def _need_topics(self) -> JobTopics:
        return needed(self._job.topics, "offsets of the job's topics", "topics")
