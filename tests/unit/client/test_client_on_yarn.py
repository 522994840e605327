"""A job under Samza's own Application Master, with what YARN's ResourceManager and people say of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from samza_dagster.client import PlacementClient
from samza_dagster.client.signs_of_life import known_life, looked_for
from samza_dagster.errors import InvalidInput, Refused
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import Author
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.metadata.resource_manager import ResourceManager
from samza_dagster.metadata.topic_reader import TopicRecord

pytestmark = pytest.mark.unit

RUNS = {
    "id": "application_1_0004",
    "name": "yw_1",
    "applicationType": "Samza",
    "state": "RUNNING",
    "finalStatus": "UNDEFINED",
    "startedTime": 1,
}


@dataclass
class Yarn:
    """A ResourceManager whose nodes and application a test changes at will; None: it is away."""

    states: dict[str, str] | None = field(default_factory=dict)
    application: dict[str, Any] | None = field(default_factory=lambda: dict(RUNS))
    free_mb: int = 1024

    def fetch(self, url: str) -> bytes:
        if self.states is None:
            raise ConnectionRefusedError("Connection refused")
        if "apps" in url:
            return json.dumps({"apps": {"app": [self.application] if self.application else []}}).encode()  # fmt: skip
        nodes = [
            {"nodeHostName": h, "state": s, "availMemoryMB": self.free_mb, "usedMemoryMB": 512}
            for h, s in self.states.items()
        ]
        return json.dumps({"nodes": {"node": nodes}}).encode()

    def manager(self) -> ResourceManager:
        """One that asks anew each time."""
        return ResourceManager(["http://rm:8088"], fetch=self.fetch, monotonic=_Later())


class _Later:
    now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 100.0
        return self.now_s


@pytest.fixture
def yarn() -> Yarn:
    return Yarn({f"host-{n}": "RUNNING" for n in range(1, 7)})


@pytest.fixture
def client(job: Any, yarn: Yarn) -> PlacementClient:
    return job.client(yarn=yarn.manager())


def test_a_node_is_known_before_any_container_was_there(client: PlacementClient) -> None:
    """The coordinator stream names host-1 to host-4 alone."""
    host = client.view().hosts["host-6"]
    assert (host.state, host.yarn_state, host.memory_mb, host.free_memory_mb) == (
        "alive",
        "RUNNING",
        1536,
        1024,
    )
    assert client.place("0", "host-6").destination_host == "host-6"


def test_a_node_without_room_is_told_before_the_request(
    job: Any, yarn: Yarn, client: PlacementClient
) -> None:
    yarn.free_mb = 256
    (told,) = client.plan("0", "host-6").notices
    assert "256 MiB free, 384 needed" in told


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("LOST", "lost"),
        ("UNHEALTHY", "lost"),
        ("DECOMMISSIONED", "lost"),
        ("DECOMMISSIONING", "closed"),
        ("UNHEARD_OF", "closed"),
    ],
)
def test_a_node_that_doesnt_run_is_no_destination(
    yarn: Yarn, client: PlacementClient, state: str, shown: str
) -> None:
    assert yarn.states is not None
    yarn.states["host-6"] = state
    assert client.view().hosts["host-6"].state == shown
    with pytest.raises(Refused, match=f"ResourceManager; seen: host-6 is {state}"):
        client.place("0", "host-6")
    assert "one of host-1" in str(client.plan("0", "host-6").refusal)
    assert client.view().queued == ()


def test_a_resource_manager_that_is_away_costs_its_own_word_alone(
    yarn: Yarn, client: PlacementClient
) -> None:
    yarn.states = None
    view = client.view()
    assert view.yarn_unread == "http://rm:8088: Connection refused"
    assert (sorted(view.hosts), view.application, view.dead) == (
        ["host-1", "host-2", "host-3", "host-4"],
        None,
        None,
    )
    assert client.place("0", "host-4").destination_host == "host-4"


def test_a_host_that_a_person_named_is_known(job: Any, yarn: Yarn) -> None:
    """Unless YARN, which knows better, says which hosts there are."""
    client = job.client(named_hosts=("host-1", "host-9"))
    assert {h: v.state for h, v in client.view().hosts.items()} == {
        **{f"host-{n}": "last-seen" for n in range(1, 5)},
        "host-9": "unknown",
    }
    assert client.place("0", "host-9").destination_host == "host-9"
    asked = job.client(named_hosts=("host-9",), yarn=yarn.manager())
    with pytest.raises(InvalidInput, match="host-9"):
        asked.place("0", "host-9")
    yarn.states = None
    assert "host-9" in asked.view().hosts


def test_yarn_says_nothing_of_a_job_that_our_coordinator_leads(
    job: Any, client: PlacementClient
) -> None:
    job.led_by_ours()
    view = client.view()
    assert (view.application, "host-6" in view.hosts) == (None, False)


def test_what_cant_be_read_of_yarns_answer_is_named(yarn: Yarn, client: PlacementClient) -> None:
    assert yarn.states is not None
    yarn.states[""] = "RUNNING"
    assert client.view().unreadable == ("http://rm:8088: node 6: no nodeHostName",)


@pytest.mark.parametrize("state", ["FINISHED", "FAILED", "KILLED"])
def test_a_job_that_yarn_has_ended_is_dead_and_nothing_is_asked_of_it(
    yarn: Yarn, client: PlacementClient, state: str
) -> None:
    yarn.application = {**RUNS, "state": state, "finalStatus": state, "diagnostics": "by a person"}
    told = f"YARN's ResourceManager: application_1_0004 is {state}, final status {state}: by a person"  # fmt: skip
    assert client.view().dead == told
    with pytest.raises(Refused, match="fix: deploy the job again") as raised:
        client.place("0", "host-6")
    assert raised.value.seen == told
    for destination in ("LAST_SEEN", "ANY_HOST", "host-6"):
        assert told in str(client.plan("0", destination).refusal)
    assert client.view().queued == ()
    shown = json.loads(json.dumps(client.view().to_json()))
    assert (shown["dead"], shown["application"]["state"]) == (told, state)


def test_nothing_is_asked_while_yarn_starts_another_application_master(
    yarn: Yarn, client: PlacementClient
) -> None:
    """The next one has another deployment id, and drops what was asked of this one."""
    yarn.application = {**RUNS, "state": "ACCEPTED"}
    assert client.view().dead is None
    with pytest.raises(Refused, match="application_1_0004 is ACCEPTED; fix: wait until its App"):
        client.place("0", "host-6")


def test_an_application_that_yarn_doesnt_know_says_nothing(
    yarn: Yarn, client: PlacementClient
) -> None:
    """A ResourceManager may have forgotten all that ran before its own start."""
    yarn.application = None
    assert client.view().dead is None
    assert client.place("0", "host-6").destination_host == "host-6"


@dataclass
class Reporting:
    """A job whose containers report, and a client that looks now and then, by its own clock."""

    job: Any
    yarn: ResourceManager | None = None
    now_s: float = 1_000.0

    def __post_init__(self) -> None:
        self.job.topics.load("metrics", "metrics-samples.jsonl")
        for processor, host in {"0": "nm1", "0-0": "nm2", "1": "nm2", "1-0": "nm1"}.items():
            record = stream.set_container_host(Author(host, "samza", 1), processor, host)
            assert record.value is not None
            self.job.store.put(record.namespace, record.key, record.value)
        self.job.topics.ranges = {("yw-lab-changelog", n): OffsetRange(0, 65_900) for n in range(4)}
        self.client = self.job.client(monotonic=lambda: self.now_s, yarn=self.yarn)

    def looks(self, *, after_s: float) -> str | None:
        self.now_s += after_s
        self.client.lag()
        return self.client.view().dead

    def newest(self) -> TopicRecord:
        """The last report in the topic."""
        records: list[TopicRecord] = self.job.topics.records["metrics"]
        return records[-1]

    def report(self) -> None:
        """All report once more, what they reported before at a later time."""
        records: list[TopicRecord] = self.job.topics.records["metrics"]
        newer = [_later(record) for record in records]
        self.job.topics.records["metrics"] = newer


def _later(record: TopicRecord) -> TopicRecord:
    assert record.value is not None
    document = json.loads(record.value)
    document["header"]["time"] += 5_000
    return TopicRecord(record.key, json.dumps(document).encode(), record.timestamp_ms + 5_000)


@pytest.fixture
def reporting(job: Any) -> Reporting:
    return Reporting(job)


def test_a_job_is_dead_when_two_reports_of_each_have_not_come(reporting: Reporting) -> None:
    """Of 5 s each, and half of one late; whoever looks for the first time knows nothing of what was before."""
    assert reporting.looks(after_s=0) is None
    assert reporting.looks(after_s=12) is None
    told = reporting.looks(after_s=1)
    assert told == "all 4 containers that reported have been silent for 13 s at least"
    with pytest.raises(Refused, match="all 4 containers that reported have been silent"):
        reporting.client.place("0", "host-2")
    reporting.report()
    assert reporting.looks(after_s=1) is None


def test_that_a_job_runs_isnt_known_before_somebody_has_said_so(
    reporting: Reporting, yarn: Yarn
) -> None:
    """A process that has just begun has seen no report come, and Samza's AM leaves no other sign."""
    life = known_life(reporting.client.view())
    assert life is not None
    assert life.runs is None
    assert "report every 5 s" in life.seen
    assert "none for 15 s means that nothing runs" in life.seen
    asked = known_life(reporting.job.client(yarn=yarn.manager()).view())
    assert asked is not None
    assert (asked.runs, "is RUNNING" in asked.seen) == (True, True)


@pytest.mark.parametrize("reports", [True, False])
def test_a_look_for_a_sign_of_life_takes_an_interval_at_most(
    reporting: Reporting, reports: bool
) -> None:
    """A report that is new in the topic is one; none is no proof of death yet, and when it would be is said."""

    def sleep(seconds: float) -> None:
        reporting.now_s += seconds
        if reports:
            reporting.job.topics.records["metrics"].append(_later(reporting.newest()))

    began_s, view = reporting.now_s, reporting.client.view()
    life = looked_for(
        reporting.client,
        view,
        sleep=sleep,
        monotonic=lambda: reporting.now_s,
        now=lambda: datetime(2026, 11, 26, 12, 0, tzinfo=UTC),
    )
    assert life is not None
    assert life.runs is (True if reports else None)
    assert reporting.now_s - began_s <= 5
    assert ("has reported" if reports else "until 12:00:10 UTC nothing runs") in life.seen


def test_what_no_reporter_tells_no_look_finds(job: Any) -> None:
    """Then YARN alone knows."""
    job.configure("metrics.reporters", "")
    client = job.client()
    life = looked_for(client, client.view(), sleep=lambda _: pytest.fail("it looked"))
    assert life is not None
    assert (life.runs, "no metrics reporter writes to a topic" in life.seen) == (None, True)
    job.led_by_ours()
    assert known_life(client.view()) is None


def test_a_look_of_long_ago_says_nothing_of_now(reporting: Reporting) -> None:
    reporting.looks(after_s=0)
    assert reporting.looks(after_s=16) is not None
    reporting.now_s += 20
    assert reporting.client.view().dead is None


def test_a_new_deployment_has_its_own_time_to_report(reporting: Reporting) -> None:
    """Its first reports come an interval after its start: the silence before wasn't its own."""
    reporting.looks(after_s=0)
    assert reporting.looks(after_s=16) is not None
    reporting.job.configure("app.run.id", "the next one")
    assert reporting.client.view().dead is None
    assert reporting.looks(after_s=1) is None
    assert reporting.looks(after_s=16) is not None


def test_silence_isnt_death_where_yarn_says_that_it_runs(job: Any, yarn: Yarn) -> None:
    """A reporter may be broken, or its topic gone."""
    reporting = Reporting(job, yarn.manager())
    reporting.looks(after_s=0)
    assert reporting.looks(after_s=16) is None


def test_silence_that_may_be_a_topic_that_cant_be_read_isnt_death(
    reporting: Reporting, make_unreadable: Callable[[Any], None]
) -> None:
    reporting.looks(after_s=0)
    make_unreadable(reporting.job)
    assert reporting.looks(after_s=16) is None


@pytest.fixture
def make_unreadable() -> Callable[[Any], None]:
    from samza_dagster.errors import Unreachable

    def lose(job: Any) -> None:
        """One of the metrics topic's partitions has no leader."""
        read = job.topics.tail

        def tail(topic: str, *args: Any, **options: Any) -> Any:
            if topic == "metrics":
                yield Unreachable("read metrics", seen="metrics-1 has no leader")
                yield from list(read(topic, *args, **options))[:3]
            else:
                yield from read(topic, *args, **options)

        job.topics.tail = tail

    return lose
