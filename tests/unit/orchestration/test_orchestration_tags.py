"""Run tags implied by a run's config, and request ids implied by a run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.orchestration.requests.step_request import request_uuid
from samza_dagster.orchestration.tags import (
    GROUP,
    PARTITION,
    SLOT,
    job_tags,
    tags_from_run_config,
)

pytestmark = pytest.mark.unit
TAGS = job_tags("demo/1", "move_container")


def config(**fields: Any) -> dict[str, Any]:
    return {"ops": {"plan_move_container": {"config": fields}}}


def test_an_active_and_its_standbys_share_a_group() -> None:
    """The limit holds for all of them together."""
    groups = {tags_from_run_config(config(processor=p), TAGS)[GROUP] for p in ("3", "3-0", "3-1")}
    assert groups == {"demo/1/3"}


def test_a_host_is_drained_by_one_run_at_a_time() -> None:
    """A second one would plan by a view that is about to change; another host isn't concerned."""
    tags = job_tags("demo/1", "drain_host")

    def group(host: str, partition: str = "") -> str | None:
        ops = {"ops": {"plan_drain_host": {"config": {"host": host}}}}
        more = {PARTITION: partition} if partition else {}
        return tags_from_run_config(ops, {**tags, **more}).get(GROUP)

    assert group("host-2") == group("", "host-2") == group("host-2", "host-3")
    assert group("host-2") != group("host-3")
    assert group("") is None
    assert group("3") != tags_from_run_config(config(processor="3"), TAGS)[GROUP]


def test_empty_reasons_are_no_tags() -> None:
    """Only what was said."""
    assert tags_from_run_config(config(processor="1", reason="", ticket="T"), TAGS) == {
        GROUP: "demo/1/1",
        "samza/ticket": "T",
    }


@pytest.mark.parametrize(
    "action",
    ["acknowledge_failover", "look_at_fleet", "snapshot_assets"],
)
def test_what_asks_nothing_has_no_limited_tag(action: str) -> None:
    """Nor waits behind whoever works on the group."""
    tags = job_tags("demo/1", action)
    implied = tags_from_run_config(config(processor="3-0", reason="x"), tags, "r1")
    assert {GROUP, SLOT}.isdisjoint({**tags, **implied})
    assert implied == {"samza/why": "x"}


@pytest.mark.parametrize("action", ["move_container", "drain_host", "rolling_bounce"])
def test_a_dry_run_shares_no_limited_tag(action: str) -> None:
    """Also one that copies the tags of a run that asks, and the other way round."""
    asking = job_tags("demo/1", action)
    asking |= tags_from_run_config(config(processor="3", host="h"), asking, "r1")
    assert asking[SLOT] == "demo/1"
    dry = asking | tags_from_run_config(config(processor="3", host="h", dry_run=True), asking, "r2")
    other = asking | tags_from_run_config(config(processor="3", dry_run=True), asking, "r3")
    for tag in (GROUP, SLOT):
        assert len({asking[tag], dry[tag], other[tag]}) == 3
    again = dry | tags_from_run_config(config(processor="3", host="h"), dry, "r4")
    assert (again[GROUP], again[SLOT]) == (asking[GROUP], asking[SLOT])


def test_other_runs_are_left_alone() -> None:
    """A job of someone else's may have an op config with a processor in it."""
    assert tags_from_run_config(config(processor="1"), {}) == {}


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["ops", "config", "processor", "x"]), inner, max_size=3
            )
        ),
    )
)
def test_a_malformed_config_never_stops_a_submission(anything: Any) -> None:
    """Dagster refuses it later, with its own message."""
    tags_from_run_config(anything, TAGS)


@given(st.uuids(), st.sampled_from(["move", "relocate_standby"]), st.integers(0, 50))
def test_a_request_s_id_depends_on_run_step_and_attempt(run: Any, step: str, attempt: int) -> None:
    """The same always, and another for each."""
    asked = request_uuid(str(run), step, attempt)
    assert asked == request_uuid(str(run), step, attempt)
    others = {
        request_uuid(str(run), step, attempt + 1),
        request_uuid(str(run), step + "x", attempt),
        request_uuid(str(run) + "x", step, attempt),
    }
    assert asked not in others
    assert len(others) == 3
