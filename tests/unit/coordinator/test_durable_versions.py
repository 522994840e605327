"""Records of the release before are led on; what no release wrote is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.coordinator.candidacy import Leader
from samza_dagster.errors import MalformedRecord
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.codec import job_from_json, job_to_json
from samza_dagster.placement.reducer import step
from samza_dagster.placement.restoring import restore
from samza_dagster.placement.state import Phase, Stage

pytestmark = pytest.mark.unit

RECORDS = Path(__file__).parents[2] / "data" / "state_of_version_1.json"


def version_1() -> dict[str, Any]:
    """As the release without failover wrote it, in mid-move with one request queued."""
    return json.loads(RECORDS.read_text())


def test_a_state_of_version_1_is_led_on() -> None:
    """Its move goes on with the ids that it had, and its queue is kept."""
    state = restore(version_1(), "demo")
    group = state.groups["0"]
    assert (group.failover, group.orphans) == (None, ())
    assert group.action is not None
    assert group.action.stage is Stage.RESERVING
    assert group.action.reservation is not None
    taken = step(state, ev.CoordinatorRestarted(state.now_ms + 1))
    again = [c for c in taken.commands if isinstance(c, cmd.RequestResource)]
    assert [c.request_id for c in again] == [group.action.reservation.request_id]
    assert [ask.uuid for ask in taken.state.groups["0"].queue] == ["u2"]
    held = step(
        taken.state,
        ev.ResourceAllocated(state.now_ms + 2, group.action.reservation.request_id, "host-3"),
    )
    assert held.state.groups["0"].processors["0"].phase is Phase.STOPPING


def test_the_mark_of_a_take_over_is_no_state() -> None:
    """A leader, of this release or the one before, passes over a key that it doesn't know."""
    records = version_1()
    marked = {**records, "take-over": {"version": 2, "host": "h"}}
    assert restore(marked, "demo") == restore(records, "demo")


def test_requests_that_version_1_remembered_are_known() -> None:
    """A duplicate of one changes nothing."""
    state = restore(version_1(), "demo")
    assert {"u1", "u2"} <= set(state.uuids)


def test_the_time_of_the_last_audit_record_is_kept_from_the_next_one_on() -> None:
    """Of an older state's last record it isn't known: the one that follows doesn't say it."""
    records = version_1()
    records["job"]["state"] |= {"certificates": 57, "certificate_hash": "ab" * 32}
    state = restore(records, "demo")
    assert (state.certificates, state.certificate_at_ms) == (57, 0)
    execution = state.groups["0"].processors["0"].incarnation
    assert execution is not None
    taken = step(
        state, ev.ContainerStopped(state.now_ms + 5, execution.execution_id, execution.host, 137)
    )
    (record,) = [c.record for c in taken.commands if isinstance(c, cmd.RecordCertificate)]
    assert (record.number, record.previous_at_ms) == (58, None)
    assert taken.state.certificate_at_ms == record.at_ms
    assert job_from_json(job_to_json(taken.state)).certificate_at_ms == record.at_ms


def test_a_field_that_no_release_wrote_is_refused() -> None:
    """With its name: half a state isn't led on."""
    records = version_1()
    records["group/0"]["group"]["surprise"] = 1
    with pytest.raises(MalformedRecord, match=r"group\.surprise"):
        restore(records, "demo")


@pytest.mark.parametrize(
    ("key", "value", "field"),
    [
        ("job", {}, "state"),
        ("job", {"state": 7}, "job"),
        ("group/7", {}, "group"),
        ("group/7", {"group": {}}, "group"),
        ("host/h", {"alive": True}, "host"),
        ("host/h", {"host": "h"}, "alive"),
    ],
)
def test_a_record_of_ours_that_lacks_its_content_is_refused_by_its_key(
    key: str, value: dict[str, Any], field: str
) -> None:
    """As one that is no JSON: a refusal, which says what to look at."""
    with pytest.raises(MalformedRecord, match=f"key {key}: field {field}"):
        restore({**version_1(), key: {"version": 2, **value}}, "demo")


@pytest.mark.parametrize("number", [None, "x", float("inf"), [1]])
@pytest.mark.parametrize("field", ["epoch", "lease_ms", "beat_every_ms"])
def test_a_leader_whose_record_says_no_number_is_refused_by_its_key(
    field: str, number: object
) -> None:
    """Whoever waits behind it couldn't tell when it is gone."""
    with pytest.raises(MalformedRecord, match="key leader"):
        Leader.of({"epoch": 1, "lease_ms": 9_000, field: number})
