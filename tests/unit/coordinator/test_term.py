"""A term: what it commits, when deadlines count anew, and how it shows that it leads."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from traceback import walk_stack

import pytest

from samza_dagster.coordinator.mail import Arrived
from samza_dagster.coordinator.recording import JsonLinesRecorder
from samza_dagster.coordinator.term import ids_of
from samza_dagster.errors import Fenced, Unreachable
from samza_dagster.metadata.state_topic import DEPLOYMENT, LEADER, TAKE_OVER, is_mail, is_state
from samza_dagster.placement import events
from samza_dagster.placement.state import JobState, PlacementAsk
from tests.rig.term_bench import (
    HOSTS,
    UUID,
    Bench,
    Brokers,
    all_allocated,
    asks,
    everything_runs,
    leading,
    malformed,
    processors,
)
from tests.simulation.event_log import replay_log

pytestmark = pytest.mark.unit


def test_starts_that_found_the_brokers_away_leave_when_they_are_back() -> None:
    """Within a second, and once; not the one that was given up meanwhile."""
    bench = Bench(brokers=Brokers(away=True))
    bench.run()
    events, asked = all_allocated(bench)
    bench.handle_all()
    assert not bench.cluster.named("start_container")
    first, other = (call[1].launch.execution_id for call in asked)
    events.on_container_stopped(first, HOSTS[0], 1)
    bench.handle_all()
    bench.brokers.away = False
    bench.pass_time(1.5)
    assert bench.term._seconds_to_next() < 1
    bench.term._keep_house()
    bench.term._keep_house()
    started = [call[3].execution_id for call in bench.cluster.named("start_container")]
    assert started == [other]


def test_a_start_of_the_deployment_before_is_said_to_no_host_that_could_launch_it() -> None:
    """Its login is that config's: a process launched with another would be fenced in vain."""
    first = Bench()
    first.run()
    all_allocated(first)
    first.handle_all()
    starting = {call[3].execution_id for call in first.cluster.named("start_container")}
    assert len(starting) == 2

    second = Bench(stored=first.steps.state, deployment_id="run-2")
    second.run()
    calls = [call[0] for call in second.cluster.calls]
    hosts_register = calls.index("start")
    assert "start_container" in calls[:hosts_register]  # dropped: nobody has registered
    assert {c[1] for c in second.cluster.named("stop_container")} == starting
    second.handle_all()
    assert "start_container" not in [call[0] for call in second.cluster.calls[hosts_register:]]


def test_hosts_are_admitted_after_all_that_their_registration_told() -> None:
    """Each, once the events before have been handled."""
    bench = Bench()
    bench.steps.inbox.end()
    bench.term.lead({})
    bench.handle_all()
    assert [call[1] for call in bench.cluster.named("admit_host")] == list(HOSTS)
    assert all(host.registered for host in bench.steps.state.hosts.values())


def test_after_a_long_commit_nothing_is_late_and_hosts_tell_again() -> None:
    """A minute without a broker: no host is lost by it, and no request expires by the reducer."""
    bench = leading()
    requested = bench.cluster.named("request_resource")
    assert len(requested) == 2
    bench.cluster.calls.clear()
    bench.log.takes_s = [60.0]
    ask = PlacementAsk(UUID, "run-1", "0", "h1", 1)
    bench.term._handle(Arrived(ask))
    bench.term._keep_house()
    assert bench.cluster.named("report_again")
    again = {call[1].request_id for call in bench.cluster.named("request_resource")}
    assert {call[1].request_id for call in requested} <= again
    assert not any(host.registered for host in bench.steps.state.hosts.values())
    bench.handle_all()
    bench.term._keep_house()
    state = bench.steps.state
    assert all(host.registered and host.alive for host in state.hosts.values())
    assert {p.phase.value for p in state.groups["0"].processors.values()} == {"requesting"}


def test_a_step_is_recorded_before_its_commit_and_one_that_fails_is_the_last(
    tmp_path: Path,
) -> None:
    """So a log lacks nothing that the records hold; it may be one step ahead of them."""
    path = tmp_path / "events.jsonl"
    recorder = JsonLinesRecorder(path)
    recorder.begin(4, {}, JobState("j-1"))
    bench = Bench(recorder=recorder)

    def is_recorded(_: float) -> None:
        known.append(path.read_text().splitlines()[-1])

    known: list[str] = []
    bench.log.clock = is_recorded
    bench.log.takes_s = [0.0]
    bench.run()
    assert "JobDeployed" in known[0]
    bench.handle_all()

    def away(_: float) -> None:
        raise Unreachable("commit", seen="no answer")

    bench.log.clock = away
    bench.log.takes_s = [0.0]
    before = bench.steps.state
    with pytest.raises(Unreachable):
        bench.term._handle(Arrived(PlacementAsk(UUID, "run-1", "0", "h1", 1)))
    assert bench.steps.state is before
    assert UUID in path.read_text().splitlines()[-1]
    assert replay_log(path).differs is None


def beat(bench: Bench) -> None:
    bench.term._keep_house()


def refusal(bench: Bench) -> None:
    bench.term._handle(malformed(own=True))
    bench.term._keep_house()


def cleaning(bench: Bench) -> None:
    bench.cleaner.records = [("request/x", None)]
    bench.term._clean_at_ms = 0
    bench.term._keep_house()


@pytest.mark.parametrize("what", [beat, refusal, cleaning])
def test_deadlines_count_anew_after_any_long_commit(what: Callable[[Bench], None]) -> None:
    """Not of a step alone: of a beat, a refusal, the cleaning. Nothing is overdue then."""
    bench = leading()
    everything_runs(bench)
    if what is beat:
        bench.pass_time(10.5)
    bench.cluster.calls.clear()
    bench.log.takes_s = [60.0]
    what(bench)
    assert bench.cluster.named("report_again")
    assert not any(host.registered for host in bench.steps.state.hosts.values())
    bench.handle_all()
    bench.term._keep_house()
    assert all(host.registered and host.alive for host in bench.steps.state.hosts.values())


def test_where_every_commit_takes_long_each_event_has_its_turn_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Deadlines count anew once what came meanwhile is heard: for 2,000 commits of 6 s each the
    requests are answered, hosts are known in each round, and no step is taken within another.
    """
    caplog.set_level(logging.ERROR)
    bench = Bench(mails=[*asks(3)])
    depths: list[int] = []
    registered: list[int] = []

    def slow(_: float) -> None:
        bench.pass_time(6.0)
        bench.log.takes_s = [0.0]
        depths.append(sum(1 for _ in walk_stack(None)))
        registered.append(sum(h.registered for h in bench.steps.state.hosts.values()))
        if len(depths) == 2_000:
            bench.term.stop()

    bench.log.clock = slow
    bench.log.takes_s = [0.0]
    bench.term.lead({})
    assert len(depths) > 2_000
    assert max(depths[10:]) - min(depths[10:]) < 10
    assert {each.ask.uuid for each in asks(3)} <= set(bench.steps.state.uuids)
    for start in range(100, 2_000, 100):
        assert max(registered[start : start + 100]) >= len(HOSTS) - 1


def test_what_came_during_a_slow_admission_is_heard_before_anything_is_late() -> None:
    """The one that starts had checked in: its deadline passed while the controller hung."""
    bench = leading()
    events, _ = all_allocated(bench)
    items = bench.steps.inbox._items
    bench.term._handle(items.get())
    ((_, _, host, launch, _),) = bench.cluster.named("start_container")

    def hang() -> None:
        bench.pass_time(600.0)
        events.on_container_checked_in(launch.execution_id, host)

    bench.brokers.on_admit = hang
    bench.brokers.away = True
    bench.term._handle(items.get())
    bench.brokers.on_admit = lambda: None
    bench.term._keep_house()
    first = next(p for p in processors(bench) if p.incarnation.execution_id == launch.execution_id)
    assert first.phase.value == "starting"
    bench.handle_all()
    bench.term._keep_house()
    first = next(p for p in processors(bench) if p.incarnation.execution_id == launch.execution_id)
    assert (first.phase.value, first.failures) == ("running", 0)


def test_events_happen_when_they_are_taken() -> None:
    """A registration that waited behind a long commit isn't in the past: time never goes back."""
    bench = Bench()
    bench.run()
    bench.pass_time(50)
    bench.handle_all()
    assert bench.steps.state.now_ms == 1_050_000


def test_leases_shrink_while_nothing_can_be_committed() -> None:
    """What is granted ends within a lease of the last commit's sending, not of its return."""
    bench = leading()
    bench.log.takes_s = [20.0]
    bench.steps._commit([("leader", {})])
    assert bench.steps.leases.grant_s(bench.steps.clock.now_ms()) == pytest.approx(10, abs=0.1)


def test_every_record_that_a_leader_writes_has_a_key_that_the_next_one_reads() -> None:
    """A key that isn't known as ours would be left out at the take-over."""
    bench = leading()
    everything_runs(bench)
    bench.term._handle(malformed(own=True))
    bench.steps.end_in_order()
    keys = {key.encode() for key in [*bench.log.written(), LEADER, DEPLOYMENT, TAKE_OVER]}
    assert {key.partition(b"/")[0] for key in keys} >= {b"job", b"group", b"host", b"refused"}
    assert [key for key in keys if not is_state(key) and not is_mail(key)] == []


def test_a_hosts_word_of_a_higher_epoch_ends_no_leader_that_the_brokers_know(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is counted, told with what to do, and asks the brokers once in five seconds."""
    bench = Bench()
    bench.run()
    before = bench.log.written().count("leader")
    for _ in range(3):
        bench.cluster.told = {"h2": 2**53 - 1, "h3": 5}
        bench.term._heed_higher_epochs()
    assert bench.log.written().count("leader") == before + 1
    assert bench.steps.counters["refused-epochs"] == 6
    assert "the agent of h2 is refused: its highest_epoch is 9007199254740991" in caplog.text
    assert "the agent of h3" in caplog.text
    bench.pass_time(5.1)
    bench.term._heed_higher_epochs()
    assert bench.log.written().count("leader") == before + 1
    bench.cluster.told = {"h2": 5}
    bench.term._heed_higher_epochs()
    assert bench.log.written().count("leader") == before + 2


def test_a_leader_that_was_replaced_ends_by_the_brokers_word() -> None:
    """At the first agent that has heard of the other."""
    bench = Bench()
    bench.run()
    bench.log.fenced = True
    bench.cluster.told = {"h2": 5}
    with pytest.raises(Fenced):
        bench.term._heed_higher_epochs()


def test_log_lines_name_the_request_and_its_group_or_the_incarnation() -> None:
    """By these they are found beside those of agents and of Dagster."""
    ask = PlacementAsk(UUID, "run-1", "0-0", "h1", 1)
    assert ids_of(Arrived(ask)) == {"request": UUID, "processor": "0-0", "group": "0"}
    assert ids_of(malformed(own=True)) == {"request": malformed(own=True).uuid}
    assert ids_of(events.ContainerCheckedIn(0, "e-1", "h1")) == {"execution": "e-1"}
    assert ids_of(events.TimePassed(0)) == {"execution": None}


def test_a_leader_counts_from_its_own_term_on() -> None:
    """Not from its process's start: it may have waited for days, and counted nothing."""
    began = time.time()
    bench = Bench()
    bench.run()
    (line,) = [
        line
        for line in bench.term.metrics().decode().splitlines()
        if line.startswith("samza_dagster_failovers_to_any_host_created")
    ]
    assert began - 1 < float(line.split()[-1]) <= time.time()
