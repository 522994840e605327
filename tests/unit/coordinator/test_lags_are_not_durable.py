"""Lag samples steer a choice; they are no part of the state."""

from __future__ import annotations

import json

import pytest

from samza_dagster.coordinator import durable
from samza_dagster.coordinator.status import Processes, status_document
from samza_dagster.placement.codec import job_to_json
from samza_dagster.placement.events import LagObserved
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import JobState, Lag
from tests.unit.placement.scenes import running

pytestmark = pytest.mark.unit


def observed(state: JobState) -> JobState:
    lag = Lag("0-0", 12, 800, state.now_ms)
    return step(state, LagObserved(state.now_ms + 7, (lag,))).state


def test_a_sample_writes_no_record() -> None:
    """Nor is it, or the index, in the job's record when something else writes that."""
    before = running().state
    after = observed(before)
    assert after.lags["0-0"].records == 12
    assert durable.changed(before, after, leader_epoch=1) == []
    fields = json.loads(json.dumps(job_to_json(after)))
    assert fields.keys().isdisjoint({"lags", "index"})
    assert {"certificates", "certificate_hash"} <= fields.keys()


def test_the_status_shows_it_with_its_age() -> None:
    """Of the standby alone."""
    state = observed(running().state)
    document = status_document(
        state, Processes(), leader_epoch=1, counters={}, now_ms=state.now_ms + 5
    )
    shown = document["processors"]
    assert shown["0-0"]["lag"] == {"records": 12, "ready_in_ms": 800, "age_ms": 12}
    assert "lag" not in shown["0"]
