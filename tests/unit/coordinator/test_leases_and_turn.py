"""Leases and whose turn it is to lead, short leases too."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.cluster.local import LocalAgents
from samza_dagster.coordinator import diagnosis
from samza_dagster.coordinator.candidacy import (
    Candidacy,
    Leader,
    claim_of_this_process,
    is_gone,
    this_process,
)
from samza_dagster.coordinator.clock import LeaderClock
from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.coordinator.leadership import LeaderSettings, Leadership
from samza_dagster.coordinator.leases import LeaseTerms, short_lease
from samza_dagster.errors import Refused
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_owner import Deployed
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.replicas import KeptTopics
from samza_dagster.metadata.state_topic import Snapshot, StateRecord
from samza_dagster.placement.state import Limits

pytestmark = pytest.mark.unit

LIMITS = Limits(lease_ms=30_000, lease_bound_ms=1_000)


def test_a_wall_clock_that_is_set_moves_nothing() -> None:
    """Wall time counts once, at the take-over."""
    wall, elapsed = [1_000_000], [50.0]
    clock = LeaderClock(lambda: wall[0], lambda: elapsed[0])
    wall[0] = 0
    elapsed[0] = 51.5
    assert clock.now_ms() == 1_001_500


def test_a_leader_whose_clock_is_behind_goes_on_from_the_earlier_ones_time() -> None:
    """And from there by elapsed time; one that is ahead leaves its clock as it is."""
    elapsed = [50.0]
    clock = LeaderClock(lambda: 1_000_000, lambda: elapsed[0])
    assert (clock.go_on_from(999_000), clock.now_ms()) == (0, 1_000_000)
    assert (clock.go_on_from(1_150_000), clock.now_ms()) == (150_000, 1_150_000)
    elapsed[0] += 1.5
    assert clock.now_ms() == 1_151_500


@given(
    st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 20_000)), max_size=20),
    st.integers(1_000, 60_000),
    st.integers(0, 60_000),
)
def test_every_lease_ends_within_one_lease_of_the_last_commit(
    history: list[tuple[int, int]], lease_ms: int, before_ms: int
) -> None:
    """Whatever the pauses between commits and grants."""
    limits = replace(LIMITS, lease_ms=lease_ms)
    leases = LeaseTerms.of(limits, before_ms=before_ms, began_ms=0)
    now = last_commit = 0
    for pause, later in history:
        now += pause
        leases.committed(now)
        last_commit = now
        now += later
        assert now + leases.grant_s(now) * 1000 <= max(last_commit + lease_ms, now) + 1e-6


def test_a_shorter_lease_counts_only_once_the_longer_ones_are_over() -> None:
    """The next leader waits for the longest that may still run; grants are the new ones."""
    leases = LeaseTerms.of(LIMITS, before_ms=120_000, began_ms=0)
    assert leases.limits.lease_ms == 120_000
    assert leases.grant_s(0) == 30
    assert leases.longest_ms(121_000) == 120_000
    assert leases.longest_ms(121_001) == 30_000
    assert leases.next_beat_ms == 10_000


@dataclass
class FakeTopic:
    """A state topic with a leader's record, whose writes the test makes."""

    leader: Leader | None
    age_ms: int = 0
    config: str = "mine"
    mark: dict[str, Any] | None = None
    watching: Any = None
    closed: list[str] = field(default_factory=list)
    then: list[StateRecord] = field(default_factory=list)

    def snapshot(self) -> Snapshot:
        if self.leader is None:
            return Snapshot({}, 1)
        at_ms = 1_000_000 - self.age_ms
        record = StateRecord("leader", self.leader.to_json(), 0, at_ms)
        deployment = StateRecord("deployment", {"fingerprint": self.config}, 0, at_ms)
        records = {"leader": record, "deployment": deployment}
        if self.mark is not None:
            records["take-over"] = StateRecord("take-over", self.mark, 1, at_ms)
        return Snapshot(records, 1)

    def watch(self, on_record: Any, *, from_position: int) -> FakeTopic:
        assert from_position == 1
        self.watching = on_record
        for record in self.then:
            on_record(record)
        return self

    def close(self) -> None:
        self.closed.append("watch")


ELSEWHERE = Leader(epoch=3, host="elsewhere", lease_ms=9_000, beat_every_ms=1_000, ended=False)


def candidacy(
    topic: FakeTopic,
    stopped: threading.Event,
    times: list[float],
    *,
    jitter: float = 0.0,
    was_fenced: bool = False,
) -> Candidacy:
    """A clock that goes through `times`, then stays."""

    def seconds() -> float:
        return times.pop(0) if len(times) > 1 else times[0]

    return Candidacy(
        topic,  # pyright: ignore[reportArgumentType]
        fingerprint="mine",
        seconds=seconds,
        stopped=stopped,
        jitter=lambda: jitter,
        was_fenced=was_fenced,
    )


@pytest.mark.parametrize("leader", [None, replace(ELSEWHERE, ended=True)])
def test_nobody_leads(leader: Leader | None) -> None:
    """A new job, and a leader that ended in order: at once, and without holding back."""
    starter = candidacy(FakeTopic(leader), threading.Event(), [0.0])
    assert (starter.wait(), starter.settle_s) == ("nobody leads", 0)


def test_silence_is_waited_for_and_every_record_is_a_sign_of_life() -> None:
    """Two beats, counted from the last record of any kind, whatever leases of older leaders run."""
    topic = FakeTopic(ELSEWHERE)
    watcher = candidacy(topic, threading.Event(), [0.0, 1.9, 2.1])
    assert "silent for 2.1 s" in watcher.wait()
    assert topic.closed == ["watch"]
    topic = FakeTopic(ELSEWHERE)
    watcher = candidacy(topic, threading.Event(), [0.0, 2.0, 3.9, 4.1])
    real = topic.watch

    def watch(on_record: Any, *, from_position: int) -> FakeTopic:
        on_record(StateRecord("group/0", {}, 2, 0))  # heard at 2.0
        return real(on_record, from_position=from_position)

    topic.watch = watch  # pyright: ignore[reportAttributeAccessIssue]
    assert "silent for 2.1 s" in watcher.wait()


@pytest.mark.parametrize("age_ms", [-150_000, 0, 500, 150_000, 10**9])
def test_no_record_is_older_than_its_reader_has_listened(age_ms: int) -> None:
    """Its time is of another machine's clock, which may be slow or fast by anything."""
    watcher = candidacy(FakeTopic(ELSEWHERE, age_ms), threading.Event(), [0.0, 1.99, 2.01])
    assert watcher.wait().endswith("silent for 2.0 s")


def test_whoever_waits_must_go_on_with_what_the_leader_runs() -> None:
    """A stale config would replace the deployment at the next failure: it ends at once, also
    when the config changes while it waits. With nobody there it is a new deployment.
    """
    with pytest.raises(Refused, match="another config"):
        candidacy(FakeTopic(ELSEWHERE, config="other"), threading.Event(), [0.0]).wait()
    topic = FakeTopic(ELSEWHERE)
    watcher = candidacy(topic, threading.Event(), [0.0])
    real = topic.watch

    def watch(on_record: Any, *, from_position: int) -> FakeTopic:
        on_record(StateRecord("deployment", {"fingerprint": "newer"}, 2, 0))
        return real(on_record, from_position=from_position)

    topic.watch = watch  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(Refused, match="another config"):
        watcher.wait()
    nobody = FakeTopic(replace(ELSEWHERE, ended=True), config="other")
    assert candidacy(nobody, threading.Event(), [0.0]).wait() == "nobody leads"


def claim(pid: int, host: str | None = None) -> dict[str, Any]:
    """The mark of a take-over by a process of this machine, or of another."""
    mine = claim_of_this_process()
    return {**mine, "process": {**mine["process"], "pid": pid}, "host": host or mine["host"]}


NOBODY = 2**22 + 1


def test_who_takes_over_is_waited_for_although_the_leader_before_is_gone() -> None:
    """Its mark is newer than the leader's record, which counts again once it is newer."""
    ended = replace(ELSEWHERE, ended=True)
    topic = FakeTopic(ended, mark=claim(1, "elsewhere"))
    assert "silent for 5.1 s" in candidacy(topic, threading.Event(), [0.0, 2.1, 5.1]).wait()
    topic = FakeTopic(ended, mark=claim(NOBODY))
    assert candidacy(topic, threading.Event(), [0.0]).wait() == "nobody leads"


def test_of_several_that_wait_each_has_its_turn() -> None:
    """The leader is gone; whoever sees another's mark before its own turn goes on waiting."""
    gone = replace(ELSEWHERE, ended=True)
    topic = FakeTopic(ELSEWHERE)
    watcher = candidacy(topic, threading.Event(), [0.0, 0.1, 0.4, 0.6, 0.9], jitter=0.6)
    topic.then = [StateRecord("leader", gone.to_json(), 2, 0)]
    assert watcher.wait() == "the leader of epoch 3 is gone"
    assert watcher._seconds() == 0.9
    assert watcher.settle_s == 0.25  # short beside the lease: 2 s of silence, an eighth of it
    topic = FakeTopic(ELSEWHERE)
    watcher = candidacy(topic, threading.Event(), [0.0, 0.1, 1.0, 6.3, 6.5], jitter=0.6)
    topic.then = [
        StateRecord("leader", gone.to_json(), 2, 0),
        StateRecord("take-over", claim(1, "elsewhere"), 3, 0),
    ]
    assert "silent for 5.5 s" in watcher.wait()


def test_who_was_fenced_waits_for_whoever_did_it() -> None:
    """Before that one has written anything, else the two would push each other out for ever."""
    gone = replace(ELSEWHERE, ended=True)
    mine = claim_of_this_process()
    for topic in (FakeTopic(gone), FakeTopic(gone, mark=mine), FakeTopic(None)):
        watcher = candidacy(topic, threading.Event(), [0.0, 4.9, 5.1], was_fenced=True)
        assert "silent for 5.1 s" in watcher.wait()
    topic = FakeTopic(gone, mark=claim(NOBODY))
    watcher = candidacy(topic, threading.Event(), [0.0, 1.0], was_fenced=True)
    assert watcher.wait() == "the leader of epoch 3 is gone"


def test_a_stop_ends_the_wait() -> None:
    """It didn't lead, and it won't."""
    stopped = threading.Event()
    stopped.set()
    assert candidacy(FakeTopic(ELSEWHERE), stopped, [0.0]).wait() == ""


def test_a_process_of_this_machine_is_looked_up() -> None:
    """This very process is no other leader; one that isn't there any more is gone."""
    mine, namespace = this_process()
    assert mine is not None
    import socket

    here = Leader(1, socket.gethostname(), "", 3_000, 1_000, mine, namespace, ended=False)
    assert is_gone(here)
    assert is_gone(replace(here, process=mine._replace(pid=2**22 + 1)))
    assert not is_gone(replace(here, process=mine._replace(pid=1, start_ticks=0), host="other"))
    assert not is_gone(replace(here, process=None))
    assert Leader.of(here.to_json()) == here


@pytest.mark.parametrize(
    ("lease_ms", "host_timeout_ms", "told"),
    [
        (120_000, 30_000, ()),
        (102_000, 30_000, ()),
        (101_000, 30_000, ("101 s", "59.8 s", "samza.dagster.lease.ms=102000")),
        (30_000, 30_000, ("30 s", "12.5 s", "samza.dagster.lease.ms=102000")),
        # A host's word is due less often.
        (120_000, 120_000, ("120 s", "50 s", "samza.dagster.lease.ms=135000")),
        (143_000, 86_400_000, ("143 s", "59.5 s", "samza.dagster.lease.ms=144000")),
    ],
)
def test_a_lease_that_a_minute_without_brokers_outlasts_is_told_with_the_least_that_suffices(
    lease_ms: int, host_timeout_ms: int, told: tuple[str, ...]
) -> None:
    """That least one is silent itself, and a second less isn't."""
    limits = Limits(lease_ms=lease_ms, host_timeout_ms=host_timeout_ms)
    text = short_lease(limits)
    assert bool(text) is bool(told)
    assert all(part in text for part in told)
    if told:
        least = int(told[-1].partition("=")[2])
        assert not short_lease(replace(limits, lease_ms=least))
        assert short_lease(replace(limits, lease_ms=least - 1_000))


# A lease that a minute without brokers outlasts is said where somebody can still change it.

LEASE = "samza.dagster.lease.ms"
CONFIG = {"job.name": "j", "task.inputs": "kafka.in"}


@pytest.mark.parametrize(
    ("set_to", "option_s", "warned"),
    [(None, None, False), ("101000", None, True), ("102000", None, False), (None, 30.0, True)],
)
def test_a_coordinator_warns_of_a_short_lease_as_it_starts(
    set_to: str | None,
    option_s: float | None,
    warned: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Once, whether the config or `--lease` asks for it; the default isn't one."""
    coordinator = Leadership(
        LeaderSettings(
            Connection("a:1", "j"),
            CONFIG if set_to is None else {**CONFIG, LEASE: set_to},
            LaunchTemplate(command=("c",)),
            LocalAgents(tmp_path / "url", "token"),
            lease_s=option_s,
        )
    )
    coordinator.stop()
    coordinator.run()
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert [f"{LEASE}=102000" in line for line in told] == [True] * warned


@pytest.mark.parametrize(
    ("set_to", "ok", "seen"),
    [
        ("120000", True, "72.5 s without brokers or coordinator, by a lease of 120 s"),
        ("30000", True, "may end containers"),
        ("1", False, "'1'"),
    ],
)
def test_doctor_tells_what_the_lease_lives_through(
    set_to: str, ok: bool, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short one is a choice: told, and no failure. One that no coordinator takes is."""
    monkeypatch.setattr(diagnosis, "partition_counts", lambda *_: {})
    monkeypatch.setattr(diagnosis, "kept_topics", lambda *_: KeptTopics((), {}))
    found = diagnosis.findings({**CONFIG, LEASE: set_to}, KafkaCluster("a:1"), Deployed())
    (lease,) = [each for each in found if "lease" in each.check]
    assert lease.ok is ok
    assert seen in lease.seen
