"""A job at a glance: what somebody should look at, who coordinates it, what is missing."""

from __future__ import annotations

import pytest

from samza_dagster.client.views import ActionView, LeaderView
from samza_dagster.errors import Unreachable
from samza_dagster.orchestration.assets.fleet import Line, line_of, shown
from tests.rig.job_views import job, lag, processor

pytestmark = pytest.mark.unit
NOW_MS = 1_700_000_000_000


LEADER = LeaderView(1, "boss", "http://boss", 0, NOW_MS, ended=False)


def test_a_job_that_is_well_says_so() -> None:
    """Its owner, its hosts, its furthest standby."""
    view = job(processor("0", "h1"), processor("0-0", "h2"), leader=LEADER)
    line = line_of("demo/1", view, [lag("0", 900), lag("0-0", 30)], NOW_MS)
    assert (line.troubles, line.owner, line.hosts) == ((), "our coordinator on boss", ("h1", "h2"))
    assert (line.worst_lag, line.standby_debt) == (30, 0)
    row = shown([line])["jobs"].records[0].data
    assert row["state"] == "well"


def test_standby_debt_is_how_many_are_missing() -> None:
    """Against what most actives have."""
    view = job(
        processor("0", "h1"), processor("0-0", "h2"), processor("1", "h2"), processor("1-0", "h1"),
        processor("2", "h3"),
    )  # fmt: skip
    line = line_of("demo/1", view, (), NOW_MS)
    assert line.standby_debt == 1
    assert line.troubles == ("standbys of 2: 0 of 1",)


def test_what_runs_and_what_waits_is_told_with_its_age() -> None:
    """And lag that can't be read is unknown, not small."""
    moving = ActionView("u1", "0", "h3", "stopping", NOW_MS - 45_000)
    waiting = ActionView("u2", "0", "h2", "queued", NOW_MS - 5_000)
    view = job(processor("0", "h1"), actions=(moving,), queued=(waiting,))
    away = Unreachable("read lags", seen="no broker")
    line = line_of("demo/1", view, away, NOW_MS)
    assert line.now == ("place 0 to h3: stopping, 45 s",)
    assert line.waits == ("place 0 to h2: queued, 5 s",)
    assert line.worst_lag is None


def test_jobs_with_trouble_come_first() -> None:
    """A job that can't be read hides no other."""
    lines = [Line("b/1"), Line("a/1"), Line("c/1", ("can't be read: no broker",))]
    told = shown(lines)
    assert [row.data["job"] for row in told["jobs"].records] == ["c/1", "a/1", "b/1"]
    assert told["jobs_with_trouble"] == 1
    assert told["jobs"].records[0].data["hosts"] == ""


def test_a_sentence_says_what_a_person_wants_to_know_first() -> None:
    """What isn't known is no number: a lag that nobody tells isn't 0."""
    assert shown([Line("a/1")])["summary"] == (
        "well: 1 of 1 jobs; standbys missing: 0; under way: 0, waiting: 0"
    )
    bad = Line("b/1", ("can't be read",), standby_debt=2, now=("place 0",), waits=("one", "two"))
    told = shown([Line("a/1"), bad])
    assert told["summary"] == (
        "well: 1 of 2 jobs; to look at: b/1; standbys missing: 2; under way: 1, waiting: 2"
    )
    assert "worst_lag_records" not in told
    assert shown([Line("a/1", worst_lag=7)])["worst_lag_records"] == 7
