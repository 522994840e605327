"""Whatever the cluster does, late, twice or never, the rules of placement hold."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from samza_dagster.placement import events as ev
from samza_dagster.placement.codec import group_from_json, group_to_json
from samza_dagster.placement.state import Limits, Phase, PlacementAsk
from tests.unit.placement.virtual_hosts import Fault
from tests.unit.placement.world import TERMINAL, World

pytestmark = pytest.mark.unit

HOSTS = ("host-1", "host-2", "host-3", "host-4")
GROUPS = {"0": ("0", "0-0"), "1": ("1", "1-0", "1-1")}
PROCESSORS = ("0", "0-0", "1", "1-0", "1-1")
DESTINATIONS = (*HOSTS, "ANY_HOST", "ANY_HOST", "LAST_SEEN", "FORCE_RESTART_LAST_SEEN")
numbers = st.integers(min_value=0, max_value=1_000_000)


class AnyHistory(RuleBasedStateMachine):
    """Random faults; `World` checks the invariants after each step."""

    @initialize(starts=st.integers(1, 3), actions=st.integers(1, 2), settled=st.booleans())
    def deploy(self, starts: int, actions: int, settled: bool) -> None:
        self.world = World.of(HOSTS, slots=3)
        self.asked: list[PlacementAsk] = []
        for host in HOSTS:
            self.world.register(host)
        limits = Limits(max_concurrent_starts=starts, max_concurrent_actions=actions)
        self.world.deploy(GROUPS, limits=limits)
        if settled:
            self.world.settle()

    @rule(moves=st.integers(1, 60), seed=numbers)
    def go_on(self, moves: int, seed: int) -> None:
        self.world.run(moves, random.Random(seed).choice)

    @rule(
        moves=st.integers(1, 12), seed=numbers, crash_after=st.integers(0, 4), again=st.booleans()
    )
    def crash_at_a_report(self, moves: int, seed: int, crash_after: int, again: bool) -> None:
        self.world.run(moves, random.Random(seed).choice)
        pending = self.world.pending()
        if pending:
            report = pending[seed % len(pending)]
            self.world.deliver(report, again=again, crash_after=crash_after)

    @rule(seed=numbers)
    def report_twice(self, seed: int) -> None:
        pending = self.world.pending()
        if pending:
            self.world.deliver(pending[seed % len(pending)], again=True)

    @rule(
        processor=st.sampled_from(PROCESSORS),
        destination=st.sampled_from(DESTINATIONS),
        age=st.integers(0, 50),
        expiry=st.sampled_from((None, 1, 20_000)),
    )
    def ask(self, processor: str, destination: str, age: int, expiry: int | None) -> None:
        uuid = f"uuid-{len(self.asked)}"
        self.asked.append(PlacementAsk(uuid, "run-1", processor, destination, age, expiry))
        self.world.submit(self.asked[-1])

    @rule(
        processor=st.sampled_from(("0", "9", "9-0")),
        destination=st.sampled_from(("host-9", "host-1")),
    )
    def ask_oddly(self, processor: str, destination: str) -> None:
        self.ask(processor=processor, destination=destination, age=0, expiry=None)

    @precondition(lambda self: self.asked)
    @rule(seed=numbers)
    def ask_again(self, seed: int) -> None:
        self.world.submit(self.asked[seed % len(self.asked)])

    @rule(host=st.sampled_from(HOSTS), fault=st.sampled_from((None, *Fault)))
    def fault(self, host: str, fault: Fault | None) -> None:
        self.world.hosts[host].fault = fault

    @rule(host=st.sampled_from(HOSTS), seed=numbers)
    def die(self, host: str, seed: int) -> None:
        live = list(self.world.hosts[host].live())
        if live:
            self.world.hosts[host].die(self.world.now_ms, live[seed % len(live)])

    @rule(seed=numbers)
    def expire(self, seed: int) -> None:
        resources = self.world.resources
        if resources.asked:
            request_id = sorted(resources.asked)[seed % len(resources.asked)]
            resources.expire(self.world.now_ms, request_id)

    @rule(ms=st.sampled_from((100, 6_500, 31_000, 61_000)))
    def time_passes(self, ms: int) -> None:
        self.world.now_ms += ms
        self.world.handle(ev.TimePassed(self.world.now_ms))

    @rule()
    def crash(self) -> None:
        self.world.crash()

    @rule(host=st.sampled_from(HOSTS))
    def fall_silent(self, host: str) -> None:
        self.world.hosts[host].up = False
        self.world.hosts[host].silent_since_ms = self.world.now_ms
        self.world.hosts[host].registered = False
        self.world.handle(ev.HostLost(self.world.now_ms, host, self.world.now_ms))

    @rule(host=st.sampled_from(HOSTS), rebooted=st.booleans())
    def register(self, host: str, rebooted: bool) -> None:
        if rebooted:
            self.world.hosts[host].reboot()
        self.world.hosts[host].up = True
        self.world.register(host)

    @rule()
    def all_register(self) -> None:
        for host in HOSTS:
            if self.world.hosts[host].up:
                self.world.register(host)

    @rule()
    def read_back(self) -> None:
        for group in self.world.state.groups.values():
            assert group_from_json(group_to_json(group)) == group

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.settle()
        phases = self.world.phases()
        assert set(phases.values()) == {Phase.RUNNING}, phases
        for group in self.world.state.groups.values():
            assert group.action is None
            assert group.queue == ()
        assert self.world.resources.held() == [], "a resource is held for nobody"
        for host in self.world.hosts.values():
            assert all(entry.alive for entry in host.books.values()), "dead ones are not forgotten"
        for ask in self.asked:
            told = self.world.told(ask.uuid)
            assert sum(status in TERMINAL for status, _ in told) == 1, (ask, told)
            if any(status == "ACCEPTED" for status, _ in told):
                assert told[-1][0] != "BAD_REQUEST", told
        for processor_id in phases:
            assert self.world.where(processor_id) == self.world.locality[processor_id]


AnyHistory.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestAnyHistory = AnyHistory.TestCase


def long_history(seed: int, *, steps: int = 60) -> AnyHistory:
    """A history that is busier than Hypothesis would draw it; the seed repeats it."""
    chance = random.Random(seed)
    machine = AnyHistory()

    def draw(*args: object) -> int:
        return chance.randrange(1_000_000)

    def ask() -> None:
        machine.ask(
            processor=chance.choice(PROCESSORS),
            destination=chance.choice(DESTINATIONS),
            age=chance.randrange(50),
            expiry=chance.choice((None, None, 20_000)),
        )

    def crash_at_a_report() -> None:
        machine.crash_at_a_report(
            moves=chance.randrange(1, 12),
            seed=draw(),
            crash_after=chance.randrange(4),
            again=chance.random() < 0.3,
        )

    machine.deploy(starts=chance.randrange(1, 4), actions=2, settled=chance.random() < 0.7)
    rules = (
        (12, lambda: machine.go_on(moves=chance.randrange(1, 25), seed=draw())),
        (6, ask),
        (3, crash_at_a_report),
        (3, lambda: machine.report_twice(seed=draw())),
        (3, lambda: machine.fault(host=chance.choice(HOSTS), fault=chance.choice((None, *Fault)))),
        (2, lambda: machine.die(host=chance.choice(HOSTS), seed=draw())),
        (2, lambda: machine.expire(seed=draw())),
        (2, lambda: machine.time_passes(ms=chance.choice((100, 6_500, 31_000, 61_000)))),
        (1, lambda: machine.fall_silent(host=chance.choice(HOSTS))),
        (1, lambda: machine.register(host=chance.choice(HOSTS), rebooted=chance.random() < 0.5)),
        (1, machine.all_register),
    )
    weights = [weight for weight, _ in rules]
    for _ in range(steps):
        chance.choices(rules, weights)[0][1]()
    return machine


@pytest.mark.parametrize("seed", range(100))
def test_a_long_history_ends_with_everything_running(seed: int) -> None:
    """Seeded walks reach deep states: fallbacks, crashes inside of them, lost hosts."""
    long_history(seed).teardown()
