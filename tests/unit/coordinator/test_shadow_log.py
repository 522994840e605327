"""The shadow's log survives a kill, and what it adds up to."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.coordinator.shadow.decision import Decision
from samza_dagster.coordinator.shadow.events import ShadowEvent
from samza_dagster.coordinator.shadow.log import Downtimes, ShadowLog, Span, read_history, summary
from samza_dagster.errors import InvalidInput, MalformedRecord

pytestmark = pytest.mark.unit

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
    log.listened(Span(1_000, 1_000))
    log.event(event("a", ours=OURS))
    log.listened(Span(1_000, 61_000, 60.0, 0.0, "it was told to end"))
    history = read_history(file)
    assert history.events == (event("a", ours=OURS),)
    assert history.spans == (Span(1_000, 61_000, 60.0, 0.0, "it was told to end"),)


def test_a_torn_last_line_is_skipped_with_a_warning_and_the_next_shadow_goes_on_behind_it(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = ShadowLog(file, "job/1")
    log.listened(Span(1_000, 61_000, 60.0, 5.0))
    log.event(event("a"))
    file.write_bytes(file.read_bytes()[:-40])
    again = ShadowLog(file, "job/1")
    again.event(event("b"))
    again.listened(Span(70_000, 80_000, 10.0, 0.0, "it was told to end"))
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
    log.listened(Span(1_000, 3_000, 2.0))
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
    log.listened(Span(1_000, 3_601_000, 3_500.0, 100.0, "it was told to end"))
    found = summary(read_history(file))
    assert (found.events, found.listened_s, found.blind_s) == (0, 3_500.0, 100.0)
