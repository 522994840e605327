"""The state as JSON: what is written is read back, what isn't understood is refused."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from immutables import Map

from samza_dagster.errors import MalformedRecord
from samza_dagster.placement import codec
from samza_dagster.placement.index import Index
from samza_dagster.placement.state import (
    Action,
    Fencing,
    Group,
    Incarnation,
    JobState,
    Limits,
    Phase,
    PlacementAsk,
    Processor,
    ResourceRequest,
    Role,
)
from tests.unit.placement.scenes import ask, running

pytestmark = pytest.mark.unit

names = st.text(max_size=8)
jobs = st.builds(
    JobState,
    job=names,
    deployment_id=names,
    limits=st.builds(Limits),
    certificate_hash=names,
    groups=st.just(Map()),
    hosts=st.just(Map()),
    uuids=st.just(Map()),
    lags=st.just(Map()),
    index=st.just(Index()),
)


def a_group() -> dict[str, Any]:
    world = running()
    world.submit(ask("0", "host-3", uuid="u1"))
    world.submit(ask("0", "host-4", uuid="u2", expiry_ms=3))
    return codec.group_to_json(world.state.groups["0"])


@given(st.builds(Group, processors=st.dictionaries(names, st.from_type(Processor))))
def test_any_group_is_read_back(group: Group) -> None:
    """Through JSON text, as a topic carries it."""
    assert codec.group_from_json(json.loads(json.dumps(codec.group_to_json(group)))) == group


@given(jobs)
def test_any_job_is_read_back(state: JobState) -> None:
    """Its groups, hosts and uuids have records of their own."""
    assert codec.job_from_json(json.loads(json.dumps(codec.job_to_json(state)))) == state


def test_a_field_with_a_default_may_be_missing() -> None:
    """As in a record of a release that didn't have it."""
    processor = {"processor_id": "0", "role": "Active", "phase": "waiting"}
    group = codec.group_from_json({"group_id": "0", "processors": {"0": processor}})
    assert group == Group("0", {"0": Processor("0", Role.ACTIVE, Phase.WAITING)})
    assert group.processors["0"].avoid_hosts == ()


def test_the_form_of_a_group_is_as_it_was() -> None:
    """A change here needs a new version: older records are in the topics of running jobs."""
    group = a_group()
    assert " ".join(sorted(group)) == ("action failover ghosts group_id processors queue sequence")
    assert " ".join(sorted(group["processors"]["0"])) == (
        "attempts avoid_hosts deadline_ms extra failed_at_ms failures incarnation last_end "
        "last_seen_host not_before_ms phase processor_id request role sought stalled_at_ms "
        "start_deadline_ms unplaced waiting_since_ms wanted"
    )
    assert group["action"]["stage"] == "reserving"
    assert group["queue"][0]["expiry_ms"] == 3


def test_groups_hosts_and_uuids_are_not_in_the_jobs_record() -> None:
    """They would make every step write everything."""
    assert {"groups", "hosts", "uuids"}.isdisjoint(codec.job_to_json(running().state))


def test_a_missing_field_with_a_default_is_taken() -> None:
    """A record of a release that didn't have it."""
    group = a_group()
    del group["processors"]["0"]["avoid_hosts"]
    del group["processors"]["0"]["stalled_at_ms"]
    del group["processors"]["0"]["start_deadline_ms"]
    del group["processors"]["0"]["unplaced"]
    del group["processors"]["0"]["sought"]
    del group["action"]["stopping_already"]
    del group["queue"][0]["execution_id"]
    read = codec.group_from_json(group)
    assert (read.processors["0"].avoid_hosts, read.processors["0"].stalled_at_ms) == ((), ())
    assert read.processors["0"].start_deadline_ms is None
    assert (read.processors["0"].unplaced, read.processors["0"].sought) == (False, ())
    assert read.action is not None
    assert read.action.stopping_already is False
    assert read.queue[0].execution_id == ""


def test_a_job_whose_record_lacks_a_bound_has_the_one_before_there_was_a_setting() -> None:
    """A record of a release that didn't have it; each deployment tells all of them anew."""
    record = {**codec.job_to_json(running().state), "limits": {}}
    assert codec.job_from_json(record).limits == Limits(
        container_memory_mb=384,
        container_cores=1,
        request_timeout_ms=5_000,
        start_timeout_ms=60_000,
        host_timeout_ms=30_000,
        lease_ms=30_000,
        lease_bound_ms=4_000,
        fencing=Fencing.LEASE,
        retry_count=8,
        retry_window_ms=300_000,
        max_concurrent_starts=2,
        max_concurrent_actions=8,
        max_actions_per_host=2,
        max_standbys=4,
        remembered_uuids=20_000,
        host_affinity=True,
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"sequence": "1"}, "group.sequence"),
        ({"sequence": True}, "group.sequence"),
        ({"group_id": None}, "group.group_id"),
        ({"processors": []}, "group.processors"),
        ({"processors": {"0": {}}}, "group.processors.0"),
        ({"queue": [1]}, "group.queue[0]"),
        ({"fence": 1}, "group.fence"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(change: dict[str, Any], field: str) -> None:
    """Half a state is no state to lead on."""
    with pytest.raises(MalformedRecord, match=re.escape(f"field {field}")):
        codec.group_from_json({**a_group(), **change})


RECORDS = {
    Processor: "processors.0",
    Incarnation: "processors.0.incarnation",
    Action: "action",
    PlacementAsk: "queue[0]",
    ResourceRequest: "action.reservation",
    Group: "",
}


STRANGERS = ("fence", "avoid_host", "orphans", "journal", "index")


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (kind, field)
        for kind in RECORDS
        for field in STRANGERS
        if (kind, field) != (Processor, "avoid_host")  # there an older release had it
    ],
)
def test_a_field_that_is_none_of_its_record_is_refused_by_its_name(kind: type, field: str) -> None:
    """Also one that another record had in an older release, or that has another name in records."""
    group, path = a_group(), ".".join(filter(None, ["group", RECORDS[kind], field]))
    place: Any = group
    for name in re.findall(r"[\w]+", RECORDS[kind]):
        place = place[int(name)] if isinstance(place, list) else place[name]
    place[field] = None
    with pytest.raises(MalformedRecord, match=re.escape(f"field {path}:")):
        codec.group_from_json(group)


def test_an_unknown_phase_is_refused() -> None:
    """A word of a later release."""
    group = a_group()
    group["processors"]["0"]["phase"] = "hovering"
    with pytest.raises(MalformedRecord, match="phase: 'hovering'"):
        codec.group_from_json(group)
