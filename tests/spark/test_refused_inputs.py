"""Inputs that brokers refuse to a login, or are slow to give: by a broker with an authorizer that is frozen."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from samza_dagster.errors import Refused, SamzaDagsterError, Unreachable
from samza_dagster.metadata import Connection, KafkaCluster
from samza_dagster.metadata.authorizer import ALLOW, ANYTHING, DENY, USER, AclRule, Authorizer
from samza_dagster.metadata.job_topics import ANSWER_S, KafkaJobTopics, OffsetRange
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.broker_settings import MECHANISM
from samza_dagster.snapshots import FleetSnapshot, Tables, Workers, take_fleet
from tests.rig.fence_broker import fence_broker
from tests.rig.pace import PACE
from tests.rig.waiting import until
from tests.spark.conftest import Record, Topics, at
from tests.spark.reported import HOSTS, NOW_MS, report
from tests.spark.test_inputs import (
    CHANGELOG,
    CHECKPOINTS,
    LAG,
    METRICS,
    STATE,
    STREAM,
    TOPICS,
    WHOLE,
    Lag,
    Told,
    coordinated,
    is_one_line,
    lag_of,
    was_ready,
)

pytestmark = pytest.mark.cluster

NAME, PASSWORD = "reader", "p" * 32
UNREAD: Lag = (None, None, "no-leader-of-observations")
NO_RIGHT = "no right to read topic"
RIGHTS: Mapping[tuple[str, str], Told] = {
    (STREAM, "ALL"): Told(refusal=NO_RIGHT),
    (STREAM, "READ"): Told(refusal=NO_RIGHT),
    (CHECKPOINTS, "ALL"): Told(active=UNREAD),
    (CHECKPOINTS, "READ"): Told(active=UNREAD),
    (METRICS, "ALL"): Told(standby=UNREAD, status="unknown"),
    (METRICS, "READ"): Told(standby=UNREAD, status="unknown"),
    (STATE, "ALL"): Told(),
    (STATE, "READ"): Told(),
    (CHANGELOG, "ALL"): Told(
        standby=(7, None, "no-leader"), active=(9, None, "no-leader"), status="unknown"
    ),
    (CHANGELOG, "READ"): Told(),
    (LAG, "ALL"): Told(),
    (LAG, "WRITE"): Told(),
}
"""What a login may not do with which topic of a job, and what is right to tell of that job then."""
JOBS = {right: f"denied-{number}" for number, right in enumerate(RIGHTS)}


def hold(topics: Topics, job: str, **other: Any) -> None:
    """The topics of a job, each as it is to be."""
    coordinator = {STATE: lambda _: coordinated("run-0"), LAG: was_ready}
    wanted: Mapping[str, Callable[[str], Any]] = {**WHOLE, **coordinator, **other}
    held: dict[str, list[Record]] = {TOPICS[name](job): wanted[name](job) for name in TOPICS}
    topics.create_all(held)
    topics.fill_all(held)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A login has all rights but one of each job."""
    with fence_broker(tmp_path_factory.mktemp("broker")) as broker:
        topics = Topics(broker.bootstrap_servers)
        for job in (*JOBS.values(), "slow"):
            hold(topics, job)
        authorizer = Authorizer(KafkaCluster(broker.bootstrap_servers))
        authorizer.set_login(NAME, PASSWORD, MECHANISM)
        me = USER + NAME
        authorizer.add_rules(
            [
                AclRule(me, ALLOW, "ALL", "TOPIC", ANYTHING),
                *(
                    AclRule(me, DENY, operation, "TOPIC", TOPICS[name](job))
                    for (name, operation), job in JOBS.items()
                ),
            ]
        )
        authorizer.close()
        yield broker


def logged_in(broker: Broker, job: str) -> Connection:
    login = {"sasl.mechanism": MECHANISM, "sasl.username": NAME, "sasl.password": PASSWORD}
    settings = {"security.protocol": "SASL_PLAINTEXT", **login}
    return Connection(broker.sasl_servers, job, "1", settings)


@pytest.fixture(scope="module")
def denied(
    broker: Broker, workers: Workers, tmp_path_factory: pytest.TempPathFactory
) -> FleetSnapshot:
    jobs = [logged_in(broker, job) for job in JOBS.values()]
    return take_fleet(workers, jobs, at(NOW_MS), Tables(str(tmp_path_factory.mktemp("tables"))))


@pytest.mark.parametrize("right", RIGHTS, ids=" ".join)
def test_a_missing_right_makes_unknown_what_it_is_about_and_nothing_else(
    denied: FleetSnapshot, right: tuple[str, str]
) -> None:
    """With the topic, and what the login lacks."""
    told, job = RIGHTS[right], JOBS[right]

    def of(dataset: str) -> list[dict[str, Any]]:
        return [row for row in denied.rows(dataset) if row["job_name"] == job]

    if told.refusal:
        assert told.refusal in denied.unread[f"{job}/1"]
        assert is_one_line(denied.unread[f"{job}/1"])
        assert of("container_locality") == []
        return
    lags = of("changelog_lag")
    assert (lag_of(lags, "Standby"), lag_of(lags, "Active")) == (told.standby, told.active)
    assert {r["processor_id"]: r["host"] for r in of("container_locality")} == HOSTS
    (standby,) = of("standby_readiness")
    assert standby["status"] == told.status
    topic = TOPICS[right[0]](job)
    if right[0] == LAG:
        assert topic in denied.unpublished[f"{job}/1"]
        assert is_one_line(denied.unpublished[f"{job}/1"])
    elif right != (CHANGELOG, "READ"):
        (why,) = (row["unread"] for row in whole(denied) if row["job_name"] == job)
        assert right[0] in (METRICS, CHANGELOG) or NO_RIGHT in why
        assert right[0] == CHANGELOG or NO_RIGHT in denied.unread[topic]


def whole(snapshot: FleetSnapshot) -> list[dict[str, Any]]:
    return snapshot.tables.opened("snapshots").to_pyarrow_table().to_pylist()


def test_without_the_right_to_ask_the_brokers_for_the_time_reports_confirm_it(
    broker: Broker, workers: Workers, tmp_path: Path
) -> None:
    """A machine's own time, until no report is of the last minutes by it."""
    job, now_ms = JOBS[LAG, "WRITE"], time.time_ns() // 1_000_000
    with pytest.raises(Refused, match="and no report of the last") as refused:
        take_fleet(workers, [logged_in(broker, job)], None, Tables(str(tmp_path)))
    assert is_one_line(str(refused.value))
    topics = Topics(broker.bootstrap_servers)
    topics.fill(TOPICS[METRICS](job), [report(job, 8, now_ms - 1_000)])
    taken = take_fleet(workers, [logged_in(broker, job)], None, Tables(str(tmp_path)))
    assert abs(taken.at.timestamp() * 1000 - now_ms) < 60_000 * PACE
    assert lag_of(taken.rows("changelog_lag"), "Standby") == (8, 1, None)


STEPS = {"the ends of topics": 1, "the stream": 2, "reports": 3, "changelogs": 5, "readiness": 6}
"""A step begins when the clock was read so often."""


class Freezing:
    """A clock that freezes the broker as a step begins, and thaws it after some seconds, or in the end."""

    def __init__(self, broker: Broker, step: str, seconds: float) -> None:
        self._broker, self._at, self._reads = broker, STEPS[step], 0
        self._timer = Timer(seconds, self.thaw)

    def __call__(self) -> float:
        self._reads += 1
        if self._reads == self._at:
            self._broker.process.send(signal.SIGSTOP)
            self._timer.start()
        return time.monotonic()

    def thaw(self) -> None:
        self._timer.cancel()
        self._broker.process.send(signal.SIGCONT)


@contextmanager
def freezing(broker: Broker, step: str, seconds: float) -> Iterator[Freezing]:
    """The broker leads again in the end."""
    clock = Freezing(broker, step, seconds)
    streams = {TOPICS[STREAM](job) for job in (*JOBS.values(), "slow")}

    def leads() -> bool:
        with closing(KafkaJobTopics(KafkaCluster(broker.bootstrap_servers))) as topics:
            try:
                found = topics.offset_ranges(streams, committed_only=True)
            except Unreachable:
                return False
        return all(isinstance(span, OffsetRange) for span in found.values())

    try:
        yield clock
    finally:
        clock.thaw()
        until("the broker leads again", leads)


@pytest.mark.parametrize("step", STEPS)
def test_a_broker_that_is_slow_for_a_moment_changes_no_row(
    broker: Broker, workers: Workers, tmp_path: Path, step: str
) -> None:
    """Two seconds, as a long collection of garbage takes."""
    job = Connection(broker.bootstrap_servers, "slow", "1")
    with freezing(broker, step, 2.0) as clock:
        taken = take_fleet(workers, [job], at(NOW_MS), Tables(str(tmp_path)), clock=clock)
    assert taken.unread == taken.unpublished == {}
    assert lag_of(taken.rows("changelog_lag"), "Standby") == (7, 2, None)
    assert lag_of(taken.rows("changelog_lag"), "Active") == (9, 0, None)


@pytest.mark.parametrize("step", STEPS)
def test_a_broker_that_answers_no_more_is_told_in_one_line(
    broker: Broker, workers: Workers, tmp_path: Path, step: str
) -> None:
    """And in time; what was computed by then is kept, where only its publishing is left."""
    job = Connection(broker.bootstrap_servers, "slow", "1")
    began = time.monotonic()
    with freezing(broker, step, 600.0) as clock:
        if step == "readiness":
            taken = take_fleet(workers, [job], at(NOW_MS), Tables(str(tmp_path)), clock=clock)
            assert is_one_line(taken.unpublished["slow/1"])
            assert lag_of(taken.rows("changelog_lag"), "Standby") == (7, 2, None)
        else:
            with pytest.raises(Unreachable) as caught:
                take_fleet(workers, [job], at(NOW_MS), Tables(str(tmp_path)), clock=clock)
            assert is_one_line(str(caught.value))
    assert time.monotonic() - began < 6 * ANSWER_S * PACE


def test_a_stream_that_could_not_be_read_to_its_end_tells_no_row(
    broker: Broker, workers: Workers, tmp_path: Path
) -> None:
    """What was read of it may be of another deployment: its job isn't there, and the line says why."""
    job = Connection(broker.bootstrap_servers, "slow", "1")
    with (
        freezing(broker, "the stream", ANSWER_S + 3) as clock,
        pytest.raises(SamzaDagsterError) as caught,
    ):
        take_fleet(workers, [job], at(NOW_MS), Tables(str(tmp_path)), clock=clock)
    assert "doesn't answer" in caught.value.seen
    assert is_one_line(str(caught.value))
