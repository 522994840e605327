"""A shadow beside Samza's own AM as it was recorded: its picture, its log, and what both tell."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.client.access import JobAccess
from samza_dagster.coordinator.shadow.decision import Decision
from samza_dagster.coordinator.shadow.downtime import Downtime, Partition
from samza_dagster.coordinator.shadow.events import ShadowEvent
from samza_dagster.coordinator.shadow.log import (
    Downtimes,
    ShadowHistory,
    ShadowLog,
    Span,
    read_history,
    summary,
)
from samza_dagster.coordinator.shadow.picture import PictureReader
from samza_dagster.coordinator.shadow.running import Shadow
from samza_dagster.errors import InvalidInput, MalformedRecord, Unreachable
from samza_dagster.metadata.interface import KeptValue
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.metadata.resource_manager import ResourceManager
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.placement.state import Limits
from tests.rig.am_in_memory import AmInMemory
from tests.rig.am_rules import BACK_S, JOB
from tests.rig.task_report import task_report

pytestmark = pytest.mark.unit

CHANGELOG = "yw-lab-changelog"
ATTEMPT = "appattempt_1_0001_000001"
TASKS = {
    "0": ("Partition 0", "Partition 2"),
    "1": ("Partition 1", "Partition 3"),
    "0-0": ("Standby-Partition 0-0", "Standby-Partition 2-0"),
    "1-0": ("Standby-Partition 1-0", "Standby-Partition 3-0"),
}


@dataclass
class Pictured:
    """The recorded AM, the topics of its containers and the ResourceManager beside it."""

    am: AmInMemory = field(default_factory=AmInMemory)
    executions: dict[str, str] = field(
        default_factory=lambda: {pid: f"c-{n}" for n, pid in enumerate(TASKS)}
    )
    running: set[str] = field(default_factory=lambda: {f"c-{n}" for n in range(4)})
    reported_ms: int = 1_000
    away: bool = False

    def reader(self, *, yarn: bool = True) -> PictureReader:
        manager = ResourceManager(
            ["http://rm:8088"], fetch=self.fetch, monotonic=lambda: self.am.now
        )
        access = JobAccess(
            self.am.store,
            JOB,
            topics=self,
            now_ms=self.am._now_ms,
            monotonic=lambda: self.am.now,
            yarn=manager if yarn else None,
        )
        return PictureReader(access, now_ms=self.am._now_ms, monotonic=lambda: self.am.now)

    def fetch(self, url: str) -> bytes:
        if url.endswith("/am"):
            raise OSError("no route to that node")
        if url.endswith("/appattempts"):
            attempts = [{"id": 1, "appAttemptId": ATTEMPT}]
            return json.dumps({"appAttempts": {"appAttempt": attempts}}).encode()
        if url.endswith("/containers"):
            found = [
                {"containerId": it, "assignedNodeId": "nm3:8041", "containerState": "RUNNING"}
                for it in sorted(self.running)
            ]
            return json.dumps({"containers": {"container": found}}).encode()
        document = json.loads(self.am._of_yarn(url))
        if "apps" in document:
            document["apps"]["app"][0]["amRPCAddress"] = "nm3:33257"
        return json.dumps(document).encode()

    def tail(
        self, topic: str, last_ms: int | None = None, *, offset: int | None = None
    ) -> Iterator[TopicRecord | Unreachable]:
        if self.away:
            raise Unreachable(f"read topic {topic}", seen="no broker answers")
        for pid, tasks in TASKS.items() if topic == "metrics" else ():
            for task in tasks:
                yield TopicRecord(None, self.report(pid, task), self.reported_ms)

    def report(self, pid: str, task: str) -> bytes:
        number = task.removeprefix("Standby-").split()[1][0]
        gauges: dict[str, Any] = {"commit-calls": 1}
        if "-" in pid:
            gauges = {f"kafka-{CHANGELOG}-{number}-offset": "90"}
        at = {"host": self.am.am.cluster.places[pid], "at_ms": self.reported_ms}
        return task_report(JOB, task, gauges, execution_id=self.executions[pid], **at)

    def offset_ranges(self, topics: Collection[str]) -> dict[tuple[str, int], OffsetRange]:
        found = {(CHANGELOG, n): OffsetRange(0, 100) for n in range(4)}
        return {at: span for at, span in found.items() if at[0] in topics}

    def offsets_since(
        self, asked: Collection[tuple[str, int, int]]
    ) -> dict[tuple[str, int, int], int]:
        del asked
        return {}

    def close(self) -> None:
        """Nothing is open."""


def test_a_picture_has_starts_reports_lags_and_the_changelogs_of_each_task() -> None:
    picture = Pictured().reader().read()
    assert set(picture.starts) == set(TASKS)
    assert {pid: start.host for pid, start in picture.starts.items()} == {
        "0": "nm1",
        "1": "nm2",
        "0-0": "nm2",
        "1-0": "nm1",
    }
    assert picture.reports["0"].execution_id == "c-0"
    assert picture.reports["0-0"].lag == 2 * 9
    assert picture.partitions["0-0"] == {
        "Standby-Partition 0-0": ((CHANGELOG, 0),),
        "Standby-Partition 2-0": ((CHANGELOG, 2),),
    }


def test_where_the_masters_page_cannot_be_reached_the_resource_manager_tells_what_runs() -> None:
    """Whose a container is the reports say, by its id."""
    world = Pictured()
    reader = world.reader()
    assert (reader.read().executions or {}).keys() == TASKS.keys()
    world.running.discard("c-1")
    world.am.run(10)
    assert (reader.read().executions or {}).keys() == {"0", "0-0", "1-0"}


def test_without_yarn_nothing_is_known_of_what_runs() -> None:
    assert Pictured().reader(yarn=False).read().executions is None


def test_reports_that_cannot_be_read_stay_as_they_were() -> None:
    world = Pictured()
    reader = world.reader()
    before = reader.read()
    world.away = True
    for _ in range(10):
        world.am.run(5)
        picture = reader.read()
    assert picture.reports == before.reports


# The shadow's log survives a kill, and what it adds up to.

OURS = Decision("restart", "h1", with_state=True, expected_s=2.2, figure="a table")


def event(
    processor: str, state: str = "over", seconds: float | None = 9.0, **more: object
) -> ShadowEvent:
    return ShadowEvent(
        "failure",
        2_000,
        state,
        processor,
        "active",
        downtime_s=seconds,
        **more,  # type: ignore[arg-type]
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shadow.jsonl"


def test_of_the_lines_that_tell_how_long_one_shadow_listened_the_last_counts(file: Path) -> None:
    log = ShadowLog(file, "job/1")
    log.add_span(Span(1_000, 1_000))
    log.event(event("a", ours=OURS))
    log.add_span(Span(1_000, 61_000, 60.0, 0.0, "it was told to end"))
    history = read_history(file)
    assert history.events == (event("a", ours=OURS),)
    assert history.spans == (Span(1_000, 61_000, 60.0, 0.0, "it was told to end"),)


def test_a_torn_last_line_is_skipped_with_a_warning_and_the_next_shadow_goes_on_behind_it(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = ShadowLog(file, "job/1")
    log.add_span(Span(1_000, 61_000, 60.0, 5.0))
    log.event(event("a"))
    file.write_bytes(file.read_bytes()[:-40])
    again = ShadowLog(file, "job/1")
    again.event(event("b"))
    again.add_span(Span(70_000, 80_000, 10.0, 0.0, "it was told to end"))
    history = read_history(file)
    assert history.events == (event("b"),)
    (torn,) = history.unreadable
    assert "line 3" in torn
    assert "skipped line 3" in caplog.text
    found = summary(history)
    assert (found.shadows, found.killed, found.listened_s, found.blind_s) == (2, 1, 70.0, 5.0)


def test_a_line_of_a_later_release_is_refused(file: Path) -> None:
    file.write_text('{"version":2,"job":"job/1","more":{}}\n')
    with pytest.raises(MalformedRecord, match="version 2"):
        read_history(file)


def test_a_file_that_is_not_there_is_refused(file: Path) -> None:
    with pytest.raises(InvalidInput):
        read_history(file)
    with pytest.raises(InvalidInput):
        ShadowLog(file / "below" / "shadow.jsonl", "job/1")


def test_since_leaves_out_what_began_before(file: Path) -> None:
    log = ShadowLog(file, "job/1")
    log.event(event("a"))
    log.add_span(Span(1_000, 3_000, 2.0))
    assert read_history(file, 2_001).events == ()
    assert read_history(file, 3_001).spans == ()


def test_the_summary_compares_only_what_has_a_figure(file: Path) -> None:
    """Samza's downtime of the same events stands beside what ours would have taken."""
    log = ShadowLog(file, "job/1")
    log.event(event("a", seconds=9.0, ours=OURS, same_host=True))
    log.event(event("b", seconds=11.0, ours=OURS, same_host=False))
    log.event(event("c", seconds=40.0, ours=Decision("restart", "h3")))
    log.event(event("d", "unfinished", None))
    found = summary(read_history(file))
    assert (found.events, found.unfinished, found.kinds) == (4, 1, {"failure": 4})
    assert found.samza["all"] == Downtimes(3, 11.0, 40.0, 60.0)
    assert found.both == Downtimes(2, 10.0, 11.0, 20.0)
    assert found.expected == Downtimes(2, 2.2, 2.2, 4.4)
    assert (found.same_host, found.chosen) == (1, 2)
    assert found.ours == {"restart": 3}


def test_a_quiet_log_says_how_long_somebody_listened(file: Path) -> None:
    log = ShadowLog(file, "job/1")
    log.add_span(Span(1_000, 3_601_000, 3_500.0, 100.0, "it was told to end"))
    found = summary(read_history(file))
    assert (found.events, found.listened_s, found.blind_s) == (0, 3_500.0, 100.0)


# A shadow beside Samza's own AM as it was recorded, in virtual time.


class World:
    """The recorded AM, and a shadow that looks every second."""

    def __init__(self, path: Path) -> None:
        self.am = AmInMemory()
        self.path = path
        self.away = False
        self.access = JobAccess(
            self.am.store,
            JOB,
            now_ms=self.am._now_ms,
            monotonic=lambda: self.am.now,
            yarn=ResourceManager(
                ["http://rm:8088"], fetch=self.am._of_yarn, monotonic=lambda: self.am.now
            ),
        )
        self.reader = PictureReader(
            self.access, now_ms=self.am._now_ms, monotonic=lambda: self.am.now
        )
        self.shadow = Shadow(
            self.reader,
            self,
            ShadowLog(path, f"{JOB}/1"),
            Limits(),
            now_ms=self.am._now_ms,
            monotonic=lambda: self.am.now,
        )
        whole = self.am.store.whole

        def reachable() -> dict[str, dict[str, KeptValue]]:
            if self.away:
                raise Unreachable("read the coordinator stream", seen="no broker answers")
            return whole()

        self.am.store.whole = reachable  # type: ignore[method-assign]

    def around(self, tasks: Mapping[str, Sequence[Partition]], around_ms: int) -> Downtime | None:
        """The container works two seconds after it started, as it did nine seconds before."""
        assert tasks
        works_ms = around_ms + 2_000
        if self.am._now_ms() < works_ms:
            return Downtime(around_ms - 9_000, None, None)
        return Downtime(around_ms - 9_000, works_ms, 11.0)

    def watch(self, seconds: int) -> None:
        for _ in range(seconds):
            self.am.run(1)
            self.shadow.look()

    def ended(self) -> ShadowHistory:
        self.shadow.close()
        return read_history(self.path)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "shadow.jsonl")
    made.watch(2)
    return made


def only(history: ShadowHistory) -> ShadowEvent:
    (event,) = history.events
    return event


def test_a_quiet_hour_is_told_from_nobody_listening(world: World) -> None:
    world.watch(3_600)
    history = world.ended()
    assert history.events == ()
    (span,) = history.spans
    assert span.why
    assert span.listened_s == pytest.approx(3_602, abs=2)


def test_it_writes_nothing_to_the_job(world: World) -> None:
    """All that stands in the stream was written by the AM, and by whoever asked it."""
    before = len(world.am.store.written)
    world.watch(60)
    assert len(world.am.store.written) == before
    world.am.by_others("0", "nm3")
    world.watch(40)
    assert {change.namespace for change in world.am.store.written[before:]} == {
        "samza-place-container-v1",
        "set-container-host-assignment",
    }


def test_a_move_is_one_event_with_the_masters_own_times(world: World) -> None:
    """As recorded: 12.6 s at most after its poll until SUCCEEDED, and the start 3 s later."""
    host = next(iter(sorted(world.am.am.cluster.hosts - set(world.am.am.cluster.places.values()))))
    uuid = world.am.by_others("0", host)
    world.watch(40)
    event = only(world.ended())
    assert (event.kind, event.uuid, event.destination) == ("placement", uuid, host)
    assert (event.status, event.state, event.samza_host) == ("SUCCEEDED", "over", host)
    assert event.answer_s is not None
    assert 8 < event.answer_s < 18
    assert event.downtime_s == 11.0
    assert event.ours is not None
    assert (event.ours.action, event.ours.host, event.same_host) == ("move", host, True)


def test_a_forced_restart_is_the_requests_own(world: World) -> None:
    """Its SUCCEEDED comes with the stop; the container comes back later."""
    world.am.by_others("0", "FORCE_RESTART_LAST_SEEN")
    world.watch(round(BACK_S) + 20)
    event = only(world.ended())
    assert (event.kind, event.state, event.downtime_s) == ("placement", "over", 11.0)


def test_what_happened_while_the_brokers_were_away_is_seen_after_them(world: World) -> None:
    """The shadow goes on, and its blindness stands in the log."""
    world.away = True
    world.watch(30)
    world.am.am._started("1", world.am.am.cluster.places["1"])
    world.watch(5)
    world.away = False
    world.watch(5)
    history = world.ended()
    assert only(history).kind == "failure"
    assert history.spans[0].blind_s == pytest.approx(35, abs=1)


def test_what_is_open_at_the_end_is_unfinished(world: World) -> None:
    world.am.by_others("0", "nm9", requestExpiry=600_000)
    world.watch(8)
    history = world.ended()
    assert only(history).state == "unfinished"
    assert history.spans[0].why
