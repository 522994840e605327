"""Lag samples out of what standbys report."""

from __future__ import annotations

from typing import Any

import pytest
from rpds import HashTrieMap

from samza_dagster.coordinator.standby_lags import (
    StandbyLags,
    StandbyPart,
    running_standbys,
    store_parts,
)
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.model import ContainerModel, JobModel, TaskMode, TaskModel
from samza_dagster.model.changelogs import StoreChangelog
from samza_dagster.model.metrics_snapshots import TaskSample
from samza_dagster.placement.state import (
    Group,
    Incarnation,
    JobState,
    Lag,
    Phase,
    Processor,
    Role,
)

pytestmark = pytest.mark.unit

PARTS = {
    "0-0": (
        StandbyPart("Standby-P 0-0", "log", 0, "kafka-log-0-offset", "lab"),
        StandbyPart("Standby-P 2-0", "log", 2, "kafka-log-2-offset", "lab"),
    )
}
STANDBYS = {"0-0": "e1"}


def report(task: int, applied: int, at_ms: int, execution_id: str = "e1") -> dict[str, TaskSample]:
    name = f"Standby-P {task}-0"
    gauges = {f"kafka-log-{task}-offset": applied}
    return {name: TaskSample(name, "host-3", at_ms, gauges, execution_id)}


def told(lags: StandbyLags, span: dict[tuple[str, int], OffsetRange], now_ms: int) -> Any:
    return lags.lags(lags.due(STANDBYS, PARTS, now_ms), PARTS, span, now_ms)


def ends(zero: int, two: int = 10) -> dict[tuple[str, int], OffsetRange]:
    return {("log", 0): OffsetRange(0, zero), ("log", 2): OffsetRange(0, two)}


def test_records_are_summed_and_the_part_ready_last_decides() -> None:
    """100 records a second: 300 left of one part, 40 of the other."""
    lags = StandbyLags(current_ms=15_000)
    for second in range(3):
        lags.note(report(0, 100 * second - 1, 1_000 * second), 50_000 + 1_000 * second)
        lags.note(report(2, 100 * second - 1, 1_000 * second), 50_000 + 1_000 * second)
        found = told(lags, ends(500, 240), 50_100 + 1_000 * second)
    assert found == (Lag("0-0", 340, 3_000, 52_100),)


def test_a_report_is_set_against_the_end_once() -> None:
    """Later the changelog has grown, and what was written since would count as lag."""
    lags = StandbyLags(current_ms=15_000)
    lags.note(report(0, 4, 7) | report(2, 9, 7), 100)
    assert len(told(lags, ends(10), 100)) == 1
    assert told(lags, ends(99), 5_000) == ()
    lags.note(report(0, 90, 5_007), 5_010)
    assert told(lags, ends(99), 5_010) == ()
    lags.note(report(2, 9, 5_008), 5_900)
    assert told(lags, ends(99), 5_900) == (Lag("0-0", 8, 465, 5_900),)


def test_a_task_that_is_silent_leaves_its_standby_without_a_sample() -> None:
    """One of two never reported, or the other did too long ago, by the clock here."""
    lags = StandbyLags(current_ms=15_000)
    lags.note(report(0, 4, 7), 100)
    assert told(lags, ends(10), 100) == ()
    lags.note(report(2, 9, 999_999_999), 15_101)
    assert told(lags, ends(10), 15_101) == ()
    lags.note(report(0, 4, 7), 15_200)  # read once more: no news
    assert told(lags, ends(10), 15_200) == ()
    lags.note(report(0, 5, 8), 15_200)
    assert told(lags, ends(10), 15_200) == (Lag("0-0", 4, None, 15_200),)


def test_a_sample_is_good_for_three_intervals_of_its_reporter_and_for_a_minute_at_least() -> None:
    """With Samza's default of a minute it was passed over for half of the time."""
    for current_ms, good_for_ms in ((15_000, 60_000), (180_000, 180_000)):
        lags = StandbyLags(current_ms=current_ms)
        lags.note(report(0, 4, 7) | report(2, 9, 7), 100)
        assert told(lags, ends(10), 100) == (Lag("0-0", 5, None, 100, good_for_ms),)


def test_a_host_whose_clock_went_back_reports_on() -> None:
    """Not only once its clock is where it was, an hour later; a late record isn't taken for that."""
    lags = StandbyLags(current_ms=15_000)
    lags.note(report(0, 4, 3_600_007) | report(2, 9, 3_600_007), 100)
    assert told(lags, ends(10), 100) == (Lag("0-0", 5, None, 100),)
    lags.note(report(0, 5, 5_007) | report(2, 9, 5_007), 5_100)
    assert told(lags, ends(10), 5_100) == ()
    for now, applied in ((15_101, 6), (20_101, 8)):
        lags.note(report(0, applied, now) | report(2, 9, now), now)
        found = told(lags, ends(11), now)
    assert found == (Lag("0-0", 2, 5_000, 20_101),)


@pytest.mark.parametrize("set_by_ms", [-100_000, 0, 100_000])
def test_how_long_one_stands_still_is_counted_by_the_leaders_clock(set_by_ms: int) -> None:
    """The clock of its host is set while it waits for one record: that makes no stall, and hides none."""
    lags = StandbyLags(current_ms=15_000)
    for second, ahead_ms in ((0, 0), (5, set_by_ms), (21, set_by_ms), (66, set_by_ms)):
        now = 1_000_000 + 1_000 * second
        lags.note(report(0, 4, now + ahead_ms) | report(2, 9, now + ahead_ms), now)
        told(lags, ends(10 + second), now)
        stall = lags.stalled(PARTS["0-0"], 60_000)
        assert (None if stall is None else stall.for_ms) == (66_000 if second == 66 else None)


def test_a_beginning_that_moves_on_is_nothing_that_a_standby_applied() -> None:
    """What the changelog no longer holds doesn't count as lag, and hides no stall."""
    lags = StandbyLags(current_ms=15_000)
    for second in (0, 30, 66):
        now = 1_000_000 + 1_000 * second
        lags.note(report(0, 4, now) | report(2, 9, now), now)
        spans = {("log", 0): OffsetRange(50 + second, 200 + second), ("log", 2): OffsetRange(0, 10)}
        (lag,) = told(lags, spans, now)
        assert lag.records == 150
    stall = lags.stalled(PARTS["0-0"], 60_000)
    assert stall is not None
    assert stall.for_ms == 66_000


def test_a_report_of_an_earlier_incarnation_tells_nothing_of_this_one() -> None:
    """Nor does its speed; an older Samza that names none is believed."""
    lags = StandbyLags(current_ms=15_000)
    lags.note(report(0, 4, 7, "e0") | report(2, 9, 7, "e0"), 100)
    assert told(lags, ends(10), 100) == ()
    lags.note(report(0, 0, 3) | report(2, 9, 3), 200)
    assert told(lags, ends(10), 200) == (Lag("0-0", 9, None, 200),)
    lags.note(report(0, 4, 9, "") | report(2, 9, 9, ""), 300)
    assert told(lags, ends(10), 300) == (Lag("0-0", 5, None, 300),)


def test_what_a_processor_has_to_apply_is_in_its_job_model() -> None:
    """Every task with every store; nothing of a processor that it lacks."""
    task = TaskModel(
        task_name="Standby-P 0-0",
        system_stream_partitions=(),
        changelog_partition=4,
        task_mode=TaskMode.STANDBY,
    )
    container = ContainerModel(processor_id="0-0", tasks={"Standby-P 0-0": task})
    model = JobModel(config={}, containers={"0-0": container})
    stores = (StoreChangelog("a", "kafka", "log-a"), StoreChangelog("b", "kafka", "log-b"))
    assert store_parts(model, "0-0", stores) == (
        StandbyPart("Standby-P 0-0", "log-a", 4, "kafka-log-a-4-offset", "a"),
        StandbyPart("Standby-P 0-0", "log-b", 4, "kafka-log-b-4-offset", "b"),
    )
    assert store_parts(model, "0-1", stores) == ()


def test_only_standbys_that_run_are_asked_of() -> None:
    """By the incarnation that runs."""
    incarnation = Incarnation(3, "e3", "host-1", "r")
    processors = {
        "0": Processor("0", Role.ACTIVE, Phase.RUNNING, incarnation),
        "0-0": Processor("0-0", Role.STANDBY, Phase.RUNNING, incarnation),
        "0-1": Processor("0-1", Role.STANDBY, Phase.STARTING, incarnation),
        "0-2": Processor("0-2", Role.STANDBY, Phase.WAITING),
    }
    state = JobState(job="j", groups=HashTrieMap({"0": Group("0", processors)}))
    assert running_standbys(state) == {"0-0": "e3"}
