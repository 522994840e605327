"""What `status` sees of a leader: its counters and last sign of life, which never stand still."""

from __future__ import annotations

from typing import Any

import pytest

from samza_dagster.coordinator.durable import LEADER
from samza_dagster.errors import Unreachable
from samza_dagster.placement import events
from tests.rig.term_bench import Bench, everything_runs

pytestmark = pytest.mark.unit

BEAT_S = 10.0  # a third of the bench's lease


def leading() -> Bench:
    """Everything runs, and the record tells all that was counted so far."""
    bench = Bench()
    bench.run()
    bench.handle_all()
    everything_runs(bench)
    bench.pass_time(BEAT_S)
    bench.term._keep_house()
    bench.log.commits.clear()
    return bench


def told(bench: Bench) -> list[dict[str, Any]]:
    return [v for records, _, _ in bench.log.commits for key, v in records if key == LEADER]


def a_step(bench: Bench, host: str = "h1") -> None:
    """A host falls silent or comes back: a commit of the reducer."""
    known = bench.steps.state.hosts.get(host)
    assert known is not None
    if known.alive:
        bench.steps.take(events.HostLost(0, host, bench.steps.clock.now_ms()))
    else:
        bench.steps.take(events.HostRegistered(0, host, frozenset()))


def counted(bench: Bench) -> None:
    bench.steps.counters["failovers-to-standby"] += 1


def test_a_leader_that_commits_steps_all_the_time_tells_that_it_lives() -> None:
    """Its record is in a step's own commit once it is as old as a beat."""
    bench = leading()
    began_ms = bench.steps.clock.now_ms()
    for _ in range(40):
        bench.pass_time(BEAT_S / 4)
        a_step(bench)
        bench.term._keep_house()
    beats = [(value["beat_ms"] - began_ms) / 1000 for value in told(bench)]
    assert len(beats) >= 10
    gaps = [later - earlier for earlier, later in zip([0.0, *beats], beats, strict=False)]
    assert max(gaps) <= BEAT_S


def test_it_is_no_commit_of_its_own_while_there_are_steps() -> None:
    """What is written with a step costs the brokers nothing more."""
    bench = leading()
    bench.pass_time(BEAT_S)
    a_step(bench)
    assert len(bench.log.commits) == 1
    assert len(told(bench)) == 1


def test_counters_that_change_all_the_time_are_told_once_in_five_seconds() -> None:
    """A storm of failures isn't made worse by as many records of this one key."""
    bench = leading()
    for _ in range(40):
        bench.pass_time(0.25)
        counted(bench)
        bench.term._keep_house()
    assert len(told(bench)) == 2
    counted(bench)
    assert bench.term._seconds_to_next() == pytest.approx(5, abs=0.1)


def test_a_failover_shows_while_the_job_goes_on_with_other_steps() -> None:
    """The counters that the leader's record tells are those of a moment ago, hours after it began."""
    bench = leading()
    for _ in range(5):
        bench.pass_time(2)
        a_step(bench)
        bench.term._keep_house()
    so_far = dict(bench.steps.counters)
    assert so_far["any-host-requests"] > 2
    bench.pass_time(5)
    a_step(bench)
    assert told(bench)[-1]["counters"] == so_far


def test_a_record_that_was_not_committed_is_told_again() -> None:
    """The brokers were away: nobody has read it."""
    bench = leading()
    bench.pass_time(BEAT_S)

    def away(_: float) -> None:
        raise Unreachable("commit", seen="no answer")

    bench.log.clock, bench.log.takes_s = away, [0.0]
    with pytest.raises(Unreachable):
        a_step(bench)
    bench.log.clock = bench.pass_time
    bench.log.commits.clear()
    a_step(bench)
    assert len(told(bench)) == 1
