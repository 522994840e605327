"""A job in virtual time: restarts take the seconds that they take. `bounce_client` asks for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from samza_dagster.client.stop_budget import StopBudget, stop_budgets
from samza_dagster.client.views import (
    ActionView,
    CoordinatorKind,
    HostView,
    JobView,
    ProcessorView,
)
from samza_dagster.lag import NewestReadiness
from samza_dagster.model import PlacementResponse, StatusCode, TaskMode
from samza_dagster.placement import texts

BEGIN_MS = 1_700_000_000_000
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
    taken: bool = False

    @property
    def ended(self) -> bool:
        """No later status follows."""
        return bool(self.statuses) and self.statuses[-1].status_code.is_terminal


@dataclass
class BounceWorld:
    """Containers that are restarted on request. Times in virtual ms.

    `ends` are the ends of a processor's next restarts, SUCCEEDED without one; a time in
    `reserve_ms` etc. is how long that part of each restart takes. `slow` are actives that
    never process again, `far` processors whose lag stays above any limit, `crowded` those
    whose place is never reserved, `mute` those that report no lag, `crashed` those that don't
    run now; `down_after_failure` is for how long one is that a restart failed to start.

    From `idle_since_ms` on there is no input to commit. Containers report as they start, without an
    offset since no store is open yet, and every `report_every_ms`; 0: at each look. `config` has what Samza's AM counts to.

    `skew_ms`: host → how far its clock is ahead of the worker's, `leader_skew_ms` the leader's. A
    commit has the virtual time as its offset: all are written by one broker.
    """

    at: dict[str, str] = field(default_factory=lambda: dict(DEMO))
    coordinator: CoordinatorKind = "samza_dagster"
    now_ms: int = BEGIN_MS
    reserve_ms: int = 600
    stop_ms: int = 800
    start_ms: int = 2_200
    process_ms: int = 1_500
    lag_ms: int = 4_000
    report_every_ms: int = 0
    newest: NewestReadiness = field(default_factory=NewestReadiness)
    hold_ms: int = 120_000
    deployment: str = "run-1"
    trouble: str = ""
    ends: dict[str, list[tuple[StatusCode, str]]] = field(default_factory=dict)
    slow: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    far: set[str] = field(default_factory=set)
    crashed: set[str] = field(default_factory=set)
    down_after_failure: int = 0
    never_ends: set[str] = field(default_factory=set)
    mute: set[str] = field(default_factory=set)
    crowded: set[str] = field(default_factory=set)
    others: tuple[ActionView, ...] = ()
    earlier: list[PlacementResponse] = field(default_factory=list)
    requests: dict[str, Restarted] = field(default_factory=dict)
    released: list[str] = field(default_factory=list)
    starts: dict[str, list[int]] = field(default_factory=dict)
    calls: int = 0
    kill_at: int | None = None
    kill_on: tuple[str, int] | None = None
    kill_after: bool = False
    of_kind: dict[str, int] = field(default_factory=dict[str, int])
    breaks: dict[int, BaseException] = field(default_factory=dict)
    on_sleep: Callable[[BounceWorld], None] | None = None
    opened: int = 0
    skew_ms: dict[str, int] = field(default_factory=dict)
    leader_skew_ms: int = 0
    idle_since_ms: int = 10**15
    config: dict[str, str] = field(default_factory=dict[str, str])

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
        return {p: len(times) for p, times in self.starts.items()}

    def advance(self) -> None:
        """The coordinator has done what it had time for."""
        for request in self.requests.values():
            self._advance(request)

    def _advance(self, r: Restarted) -> None:
        now = self.now_ms
        if r.ended or r.deployment != self.deployment:
            return
        reserved = r.asked_ms + r.reserve_ms
        if not r.statuses and now >= r.asked_ms + min(300, r.reserve_ms):
            r.taken = True
            self._say(r, StatusCode.IN_PROGRESS, texts.RESOURCES_REQUESTED, r.asked_ms + 100)
        if now < reserved or not r.statuses:
            return
        status, message = r.ends
        if status is StatusCode.BAD_REQUEST or message.startswith("failed the Container"):
            self._end(r, status, message, reserved)
            return
        if r.hold and r.stop_ms is None:
            held = texts.held(self.at[r.processor], 120_000)
            if r.statuses[-1].response_message != held:
                self._say(r, StatusCode.IN_PROGRESS, held, reserved)
            if now >= reserved + self.hold_ms:
                host = self.at[r.processor]
                self._end(r, StatusCode.FAILED, texts.hold_expired(host), reserved + self.hold_ms)
            return
        if r.stop_ms is None:
            r.stop_ms = reserved
        if r.statuses[-1].response_message != texts.STOP_IN_PROGRESS:
            self._say(r, StatusCode.IN_PROGRESS, texts.STOP_IN_PROGRESS, r.stop_ms)
        up = r.stop_ms + self.stop_ms + self.start_ms
        if now >= up and r.processor not in self.never_ends:
            self._end(r, status, message, up)

    def _say(self, r: Restarted, status: StatusCode, message: str, at_ms: int) -> None:
        r.statuses.append(
            PlacementResponse(
                uuid=r.uuid,
                deployment_id=r.deployment,
                processor_id=r.processor,
                destination_host="LAST_SEEN",
                status_code=status,
                timestamp=at_ms + self.leader_skew_ms,
                response_message=message,
            )
        )

    def _end(self, r: Restarted, status: StatusCode, message: str, at_ms: int) -> None:
        self._say(r, status, message, at_ms)
        if status is StatusCode.SUCCEEDED:
            self.starts.setdefault(r.processor, []).append(at_ms)

    def view(self) -> JobView:
        """As the real client shows it."""
        self.advance()
        ours = self.coordinator == "samza_dagster"
        actions = [
            ActionView(
                r.uuid, r.processor, "LAST_SEEN", "stopping", r.asked_ms, trouble=self.trouble
            )
            for r in self.requests.values()
            if r.statuses and not r.ended and r.deployment == self.deployment
        ]
        queued = [
            ActionView(r.uuid, r.processor, "LAST_SEEN", "queued", r.asked_ms)
            for r in self.requests.values()
            if not r.statuses and r.deployment == self.deployment
        ]
        down = self.down()
        return JobView(
            job_name="demo",
            job_id="1",
            deployment_id=self.deployment,
            processors={
                p: ProcessorView(
                    p,
                    TaskMode.STANDBY if "-" in p else TaskMode.ACTIVE,
                    ("starting" if p in down else "running") if ours else "last-seen",
                    host,
                    f"{p}#{len(self.starts.get(p, []))}" if ours else None,
                    (f"Partition {p}",),
                    host,
                )
                for p, host in self.at.items()
            },
            hosts={h: HostView(h, "alive" if ours else "last-seen") for h in self.at.values()},
            coordinator=self.coordinator,
            actions=(*actions, *self.others),
            queued=tuple(queued),
            stop_budgets=self._stop_budgets() if not ours else {},
        )

    def _stop_budgets(self) -> dict[str, StopBudget]:
        mine = [r for r in self.requests.values() if r.deployment == self.deployment]
        answers = sorted((r.statuses[-1] for r in mine if r.statuses), key=lambda r: r.timestamp)
        queued = [r.processor for r in mine if not r.statuses]
        earlier = [r for r in self.earlier if r.deployment_id == self.deployment]
        return stop_budgets(self.config, self.at, [*earlier, *answers], queued, self.now_ms)

    def down(self) -> set[str]:
        """Who doesn't run now."""
        self.advance()
        mine = [r for r in self.requests.values() if r.deployment == self.deployment]
        return self.crashed | {
            r.processor
            for r in mine
            if r.stop_ms is not None
            and (
                not r.ended
                or (
                    r.statuses[-1].status_code is StatusCode.FAILED
                    and self.now_ms
                    < r.statuses[-1].timestamp - self.leader_skew_ms + self.down_after_failure
                )
            )
        }

    def ask(self, uuid: str, processor: str, *, hold: bool) -> None:
        """A request is written; each uuid has an effect once."""
        if uuid not in self.requests:
            ends = self.ends.get(processor)
            end = ends.pop(0) if ends else (StatusCode.SUCCEEDED, texts.started("its host"))
            reserve_ms = 10**9 if processor in self.crowded else self.reserve_ms
            self.requests[uuid] = Restarted(
                uuid, processor, self.now_ms, hold, end, self.deployment, reserve_ms
            )

    def in_flight(self) -> list[str]:
        """Whose request has no end yet."""
        self.advance()
        return [r.processor for r in self.requests.values() if not r.ended]


def earlier_restart(processor: str, at_ms: int, n: int = 0) -> PlacementResponse:
    """A placement of somebody else."""
    return PlacementResponse(
        uuid=f"00000000-0000-0000-0000-{n:012d}",
        deployment_id="run-1",
        processor_id=processor,
        destination_host="LAST_SEEN",
        status_code=StatusCode.SUCCEEDED,
        timestamp=at_ms,
        response_message=texts.started("host"),
    )
