"""The shadow's log survives a kill, and what it adds up to."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.coordinator.shadow.decision import Decision
from samza_dagster.coordinator.shadow.episodes import Episode
from samza_dagster.coordinator.shadow.log import ShadowLog, read_history
from samza_dagster.coordinator.shadow.report import Downtimes, summary
from samza_dagster.errors import InvalidInput, MalformedRecord

pytestmark = pytest.mark.unit

OURS = Decision("restart", "h1", with_state=True, expected_s=2.2, figure="a table")


def episode(
    ident: str, state: str = "over", seconds: float | None = 9.0, **more: object
) -> Episode:
    return Episode(
        ident, "failure", "run-1", 2_000, state, "0", "active", downtime_s=seconds, **more
    )  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shadow.jsonl"


def test_of_the_lines_of_one_event_the_last_counts(file: Path) -> None:
    log = ShadowLog(file, "job/1")
    log.begin(1_000)
    log.event(2_000, episode("a", "open", None))
    log.event(9_000, episode("a"))
    log.end(61_000, 60.0, 0.0, "it was told to end")
    history = read_history(file)
    assert history.episodes == (episode("a"),)
    (span,) = history.spans
    assert (span.began_ms, span.last_ms, span.listened_s, span.ended) == (1_000, 61_000, 60.0, True)


def test_a_torn_last_line_is_skipped_with_a_warning_and_the_next_shadow_goes_on_behind_it(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = ShadowLog(file, "job/1")
    log.begin(1_000)
    log.listening(61_000, 60.0, 5.0)
    log.event(62_000, episode("a"))
    file.write_bytes(file.read_bytes()[:-40])
    history = read_history(file)
    assert history.episodes == ()
    assert history.unreadable == ("line 3: it is torn",)
    assert "skipped line 3" in caplog.text
    again = ShadowLog(file, "job/1")
    again.begin(70_000)
    again.event(71_000, episode("b"))
    again.end(80_000, 10.0, 0.0, "it was told to end")
    history = read_history(file)
    assert history.episodes == (episode("b"),)
    found = summary(history)
    assert (found.shadows, found.killed, found.listened_s, found.blind_s) == (2, 1, 70.0, 5.0)


def test_a_line_of_a_later_release_is_refused(file: Path) -> None:
    file.write_text('{"version":2,"record":"begin","job":"job/1","at_ms":1}\n')
    with pytest.raises(MalformedRecord, match="version 2"):
        read_history(file)


def test_a_file_that_is_not_there_is_refused(file: Path) -> None:
    with pytest.raises(InvalidInput):
        read_history(file)
    with pytest.raises(InvalidInput):
        ShadowLog(file / "below" / "shadow.jsonl", "job/1")


def test_since_leaves_out_what_began_before(file: Path) -> None:
    log = ShadowLog(file, "job/1")
    log.begin(1_000)
    log.event(2_000, episode("a"))
    log.end(3_000, 2.0, 0.0, "")
    assert read_history(file, 2_001).episodes == ()
    assert read_history(file, 3_001).spans == ()


def test_the_summary_compares_only_what_has_a_figure(file: Path) -> None:
    """Samza's downtime of the same events stands beside what ours would have taken."""
    log = ShadowLog(file, "job/1")
    log.begin(1_000)
    log.event(2_000, episode("a", seconds=9.0, ours=OURS, same_host=True))
    log.event(2_000, episode("b", seconds=11.0, ours=OURS, same_host=False))
    log.event(2_000, episode("c", seconds=40.0, ours=Decision("restart", "h3")))
    log.event(2_000, episode("d", "unfinished", None))
    found = summary(read_history(file))
    assert (found.events, found.unfinished, found.kinds) == (4, 1, {"failure": 4})
    assert found.samza["all"] == Downtimes(3, 11.0, 40.0, 60.0)
    assert found.both == Downtimes(2, 10.0, 11.0, 20.0)
    assert found.expected == Downtimes(2, 2.2, 2.2, 4.4)
    assert (found.same_host, found.chosen) == (1, 2)
    assert found.ours == {"restart": 3}


def test_a_quiet_log_says_how_long_somebody_listened(file: Path) -> None:
    log = ShadowLog(file, "job/1")
    log.begin(1_000)
    log.end(3_601_000, 3_500.0, 100.0, "it was told to end")
    found = summary(read_history(file))
    assert (found.events, found.listened_s, found.blind_s) == (0, 3_500.0, 100.0)
