"""A recording that can't go on: the leader does, and the log ends where it stood."""

from __future__ import annotations

import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from samza_dagster.coordinator.recording import JsonLinesRecorder
from samza_dagster.errors import InvalidInput
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import JobState
from tests.simulation.event_log import replay_log

pytestmark = pytest.mark.unit

FULL = Path("/dev/full")


@contextmanager
def room_for(size: int) -> Generator[None]:
    """No file of this process may grow beyond it: what is beyond isn't written, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def registered(state: JobState, host: str) -> tuple[ev.Event, JobState]:
    event = ev.HostRegistered(5, host, frozenset())
    return event, step(state, event).state


def test_a_file_that_takes_nothing_is_refused_before_anybody_leads() -> None:
    """Who asked for it is told what is wrong, while the former leader still leads."""
    with pytest.raises(InvalidInput, match="record events to /dev/full") as refused:
        JsonLinesRecorder(FULL)
    assert "No space left" in refused.value.seen


def test_the_try_leaves_a_file_as_it_was(tmp_path: Path) -> None:
    """An empty one, and one that another coordinator writes to."""
    path = tmp_path / "events.jsonl"
    for content in (b"", b"{}\n"):
        path.write_bytes(content)
        JsonLinesRecorder(path).close()
        assert path.read_bytes() == content


def test_a_first_term_whose_beginning_finds_no_room_is_led_without_a_recording(
    tmp_path: Path,
) -> None:
    """It has taken over by then: nobody else would lead."""
    path = tmp_path / "events.jsonl"
    recorder = JsonLinesRecorder(path)
    with room_for(9):
        recorder.begin(1, {}, JobState("demo"))
    recorder.record(*registered(JobState("demo"), "host-1"))
    assert path.read_bytes() == b""


def test_a_disk_that_is_full_ends_the_recording_and_not_the_leader(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once; the log holds whole lines, and replays up to there."""
    path = tmp_path / "events.jsonl"
    recorder = JsonLinesRecorder(path)
    state = JobState("demo")
    recorder.begin(1, {}, state)
    event, state = registered(state, "host-1")
    recorder.record(event, state)
    whole = path.read_bytes()
    with room_for(len(whole) + 9):
        for host in ("host-2", "host-3"):
            event, state = registered(state, host)
            recorder.record(event, state)
    assert path.read_bytes() == whole
    [told] = [record.message for record in caplog.records]
    assert str(path) in told
    assert replay_log(path).events == 1


def test_what_stopped_stays_so_in_later_terms_of_the_process(tmp_path: Path) -> None:
    """The log would lack what was in between; no later term ends for it either."""
    path = tmp_path / "events.jsonl"
    recorder = JsonLinesRecorder(path)
    state = JobState("demo")
    recorder.begin(1, {}, state)
    whole = path.read_bytes()
    with room_for(len(whole)):
        event, state = registered(state, "host-1")
        recorder.record(event, state)
        recorder.begin(2, {}, state)
    recorder.begin(3, {}, state)
    recorder.record(event, state)
    assert path.read_bytes() == whole
