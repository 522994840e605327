"""A job in virtual time: restarts take the seconds that they take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from samza_dagster.client import PlacementClient
from samza_dagster.client.views import HostView
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model import PlacementRequest, PlacementResponse, ResponseDetails, StatusCode
from samza_dagster.model.naming import LAST_SEEN, group_of, is_standby
from samza_dagster.model.own_requests import OwnRequest, RequestKind
from samza_dagster.placement import texts
from samza_dagster.placement.state import Action, PlacementAsk, Stage
from tests.rig.actions import action_at
from tests.rig.played_job import BEGIN_MS, PlayedJob
from tests.rig.played_topics import commit
from tests.rig.worker import Calls, Worker

COMMIT_MS = 1_500
DEMO = {"0": "host-1", "1": "host-2", "0-0": "host-3", "1-0": "host-4"}


@dataclass
class Restarted:
    """One request and where it stands."""

    uuid: str
    processor: str
    asked_ms: int
    hold: bool
    ends: tuple[StatusCode, str]
    deployment: str
    reserve_ms: int
    statuses: list[PlacementResponse] = field(default_factory=list)
    committed_by: str = ""
    stop_ms: int | None = None

    @property
    def ended(self) -> bool:
        """No later status follows."""
        return bool(self.statuses) and self.statuses[-1].status_code.is_terminal


@dataclass(eq=False)
class BounceWorld(PlayedJob):
    """Containers that are restarted on request. Times in virtual ms.

    `ends` are the ends of a processor's next restarts, SUCCEEDED without one; a time in
    `reserve_ms` etc. is how long that part of each restart takes; after `process_ms` an active has
    restored its stores and commits, after `lag_ms` a standby has. `slow` are actives that
    never process again, `far` standbys whose lag stays above any limit, `crowded` those whose
    place is never reserved, `mute` those that report no lag, `crashed` those that don't run now; `down_after_failure` is for how long one is that a restart failed to start.

    From `idle_since_ms` on there is no input to commit. Containers report as they start, without an
    offset since no store is open yet, and every `report_every_ms`; 0: at each look. `others` has what
    somebody else has asked for, which is never done.

    `skew_ms`: host → how far its clock is ahead of the worker's, `leader_skew_ms` the leader's. A
    commit has the virtual time as its offset: all are written by one broker. `calls` are those of workers.
    """

    at: dict[str, str] = field(default_factory=lambda: dict(DEMO))
    reserve_ms: int = 600
    stop_ms: int = 800
    start_ms: int = 2_200
    process_ms: int = 4_000
    lag_ms: int = 4_000
    report_every_ms: int = 0
    hold_ms: int = 120_000
    ends: dict[str, list[tuple[StatusCode, str]]] = field(default_factory=dict)
    slow: set[str] = field(default_factory=set)
    far: set[str] = field(default_factory=set)
    crashed: set[str] = field(default_factory=set)
    down_after_failure: int = 0
    never_ends: set[str] = field(default_factory=set)
    mute: set[str] = field(default_factory=set)
    crowded: set[str] = field(default_factory=set)
    others: tuple[PlacementAsk, ...] = ()
    requests: dict[str, Restarted] = field(default_factory=dict)
    released: list[str] = field(default_factory=list)
    started_ms: dict[str, list[int]] = field(default_factory=dict)
    calls: Calls = field(default_factory=Calls)
    on_sleep: Callable[[BounceWorld], None] | None = None
    opened: int = 0
    skew_ms: dict[str, int] = field(default_factory=dict)
    leader_skew_ms: int = 0
    idle_since_ms: int = 10**15
    committed_ms: dict[str, int] = field(default_factory=dict[str, int])

    def client(self) -> PlacementClient:
        """A worker's, which may be killed at any call."""
        self.opened += 1
        return Worker.client(super().client(), self.calls)

    def clock(self) -> int:
        """The worker's clock."""
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        """Time passes."""
        self.now_ms += max(1, round(seconds * 1000))
        if self.on_sleep is not None:
            self.on_sleep(self)

    def order(self) -> list[str]:
        """Whom it was asked for, in order."""
        return [r.processor for r in self.requests.values()]

    def restarts(self) -> dict[str, int]:
        """How often each was started anew."""
        self.advance()
        return {p: len(times) for p, times in self.started_ms.items()}

    def in_flight(self) -> list[str]:
        """Whose request has no end yet."""
        self.advance()
        return [r.processor for r in self.requests.values() if not r.ended]

    def down(self) -> set[str]:
        """Who doesn't run now."""
        self.advance()
        return self.crashed | {r.processor for r in self._mine() if self._is_down(r)}

    # What the coordinator does.

    def on_ask(self, uuid: str, request: OwnRequest | PlacementRequest) -> None:
        of = self.requests.get(getattr(request, "refers_to", None) or "")
        if of is not None and request.kind is RequestKind.COMMIT:
            assert of.committed_by in ("", uuid), "two commits of one hold"

    def on_asked(self, uuid: str, request: OwnRequest | PlacementRequest) -> None:
        about = request.refers_to if isinstance(request, OwnRequest) else None
        if about is None:
            self._begin(uuid, request)
            return
        assert isinstance(request, OwnRequest)
        of = self.requests[about]
        if request.kind is RequestKind.COMMIT:
            of.committed_by, of.stop_ms = uuid, self.now_ms
            told = texts.committed(about)
        else:
            assert of.stop_ms is None, "what was stopped can't be given back"
            self._say(of, StatusCode.FAILED, texts.RELEASED, self.now_ms)
            self.released.append(of.processor)
            told = texts.ended_for(about, released=True)
        self.carry_out(uuid, request, told)

    def _begin(self, uuid: str, request: OwnRequest | PlacementRequest) -> None:
        processor = request.processor_id
        assert request.destination_host == LAST_SEEN
        ends = self.ends.get(processor)
        self.requests[uuid] = Restarted(
            uuid,
            processor,
            self.now_ms,
            isinstance(request, OwnRequest) and request.hold,
            ends.pop(0) if ends else (StatusCode.SUCCEEDED, texts.started(self.at[processor])),
            self.deployment,
            10**9 if processor in self.crowded else self.reserve_ms,
        )

    def advance(self) -> None:
        for request in self.requests.values():
            self._advance(request)

    def _advance(self, r: Restarted) -> None:
        now = self.now_ms
        if r.ended or r.deployment != self.deployment:
            return
        reserved = r.asked_ms + r.reserve_ms
        if not r.statuses and now >= r.asked_ms + min(300, r.reserve_ms):
            self._say(r, StatusCode.IN_PROGRESS, texts.RESOURCES_REQUESTED, r.asked_ms + 100)
        if now < reserved or not r.statuses:
            return
        status, message = r.ends
        if status is StatusCode.BAD_REQUEST or message.startswith("failed the Container"):
            self._say(r, status, message, reserved)
            return
        if r.hold and r.stop_ms is None:
            held = texts.held(self.at[r.processor], 120_000)
            if r.statuses[-1].response_message != held:
                self._say(r, StatusCode.IN_PROGRESS, held, reserved)
            if now >= reserved + self.hold_ms:
                expired = texts.failed("the reservation was not committed in time")
                self._say(r, StatusCode.FAILED, expired, reserved + self.hold_ms)
            return
        if r.stop_ms is None:
            r.stop_ms = reserved
        if r.statuses[-1].response_message != texts.STOP_IN_PROGRESS:
            self._say(r, StatusCode.IN_PROGRESS, texts.STOP_IN_PROGRESS, r.stop_ms)
        up = r.stop_ms + self.stop_ms + self.start_ms
        if now >= up and r.processor not in self.never_ends:
            if status is StatusCode.SUCCEEDED:
                self.started_ms.setdefault(r.processor, []).append(up)
            self._say(r, status, message, up)

    def _say(self, r: Restarted, status: StatusCode, message: str, at_ms: int) -> None:
        stopping = message == texts.STOP_IN_PROGRESS
        is_down = status is StatusCode.SUCCEEDED or message.startswith("failed to start")
        details = ResponseDetails(
            stage="stopping" if stopping else "held" if message.startswith("Reserved") else None,
            started=r.processor if status is StatusCode.SUCCEEDED else None,
            stopped=(r.processor,) if stopping or is_down else (),
        )
        self.answers[r.uuid] = r.statuses
        self.respond(
            PlacementResponse(
                uuid=r.uuid,
                deployment_id=r.deployment,
                processor_id=r.processor,
                destination_host=LAST_SEEN,
                status_code=status,
                timestamp=at_ms + self.leader_skew_ms,
                response_message=message,
                details=details if self.coordinator == "samza_dagster" else None,
            )
        )

    def _mine(self) -> list[Restarted]:
        return [r for r in self.requests.values() if r.deployment == self.deployment]

    def _is_down(self, r: Restarted) -> bool:
        if r.stop_ms is None or not r.ended:
            return r.stop_ms is not None
        last = r.statuses[-1]
        failed_ms = last.timestamp - self.leader_skew_ms
        return (
            last.status_code is StatusCode.FAILED
            and self.now_ms < failed_ms + self.down_after_failure
        )

    def actions(self) -> dict[str, Action]:
        others = {
            group_of(ask.processor_id): action_at(Stage.STOPPING, ask, None) for ask in self.others
        }
        return super().actions() | others

    # What is to be seen of it.

    def phase(self, processor: str) -> str:
        return "starting" if processor in self.down() else "running"

    def incarnation(self, processor: str) -> str:
        return f"{processor}#{len(self.started_ms.get(processor, []))}"

    def host_views(self) -> dict[str, HostView]:
        return {host: HostView(host, "alive") for host in self.at.values()}

    def lags_of(self, processor: str) -> list[int | None] | None:
        if processor in self.mute or processor in self.down():
            return None
        started, reported = self._started(processor), self.came_at(processor)
        if not is_standby(processor):
            return [0 if self._committed_ms(processor) > started else None]
        if self.report_every_ms and reported == started > BEGIN_MS:
            return [None]
        if reported >= started + self.lag_ms and processor not in self.far:
            return [0]
        return [1_000]

    def came_at(self, processor: str) -> int:
        started, every_ms = self._started(processor), self.report_every_ms or 1
        return started + (self.now_ms - started) // every_ms * every_ms

    def reported_at(self, processor: str) -> int:
        return self.came_at(processor) + self.skew_ms.get(self.at[processor], 0)

    def commits(self) -> Iterable[TopicRecord]:
        """Of each active one long ago, and its newest."""
        actives = [p for p in self.at if not is_standby(p)]
        found = [commit(p, 0, 0, BEGIN_MS) for p in actives]
        for p in actives:  # what a process has committed stays when it dies
            self.committed_ms[p] = max(self._committed_ms(p), self.committed_ms.get(p, 0))
        newest = sorted((ms, p) for p, ms in self.committed_ms.items())
        return [*found, *(commit(p, ms, ms, ms) for ms, p in newest)]

    def inputs(self) -> Mapping[int, int]:
        return {}

    def _started(self, processor: str) -> int:
        return self.started_ms.get(processor, [BEGIN_MS])[-1]

    def _committed_ms(self, processor: str) -> int:
        """Up to its stop the former incarnation has committed too."""
        stops = [r.stop_ms or 0 for r in self.requests.values() if r.processor == processor]
        former = max(stops, default=0)
        if processor in self.slow or processor in self.down():
            return former
        first_ms = self._started(processor) + self.process_ms
        worked_ms = min(self.now_ms, self.idle_since_ms) - first_ms
        return former if worked_ms < 0 else first_ms + worked_ms // COMMIT_MS * COMMIT_MS
