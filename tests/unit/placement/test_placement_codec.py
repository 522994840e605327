"""The state as JSON: what is written is read back, what isn't understood is refused."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rpds import HashTrieMap

from samza_dagster.errors import MalformedRecord
from samza_dagster.placement import codec
from samza_dagster.placement.index import Index
from samza_dagster.placement.state import (
    Action,
    Group,
    Incarnation,
    JobState,
    Limits,
    Move,
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
    groups=st.just(HashTrieMap()),
    hosts=st.just(HashTrieMap()),
    uuids=st.just(HashTrieMap()),
    lags=st.just(HashTrieMap()),
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


@given(st.one_of([st.from_type(kind) for kind in get_args(Action)]))
def test_any_action_is_read_back_as_what_it_is(action: Action) -> None:
    """The kinds have fields alike."""
    group = Group("0", {}, action)
    assert codec.group_from_json(json.loads(json.dumps(codec.group_to_json(group)))) == group


@pytest.mark.parametrize("kind", [None, "Hover", ["Move"]])
def test_an_unknown_kind_of_action_is_refused(kind: Any) -> None:
    """It may be of a later release."""
    group = a_group()
    group["action"]["kind"] = kind
    with pytest.raises(MalformedRecord, match=r"field group\.action\.kind"):
        codec.group_from_json(group)


@given(jobs)
def test_any_job_is_read_back(state: JobState) -> None:
    """Its groups, hosts and uuids have records of their own."""
    assert codec.job_from_json(json.loads(json.dumps(codec.job_to_json(state)))) == state


def test_a_field_with_a_default_may_be_missing() -> None:
    """Then it is the default."""
    processor = {"processor_id": "0", "role": "Active", "phase": "waiting"}
    group = codec.group_from_json({"group_id": "0", "processors": {"0": processor}})
    assert group == Group("0", {"0": Processor("0", Role.ACTIVE, Phase.WAITING)})
    assert group.processors["0"].avoid_hosts == ()


def test_groups_hosts_and_uuids_are_not_in_the_jobs_record() -> None:
    """They would make every step write everything."""
    assert {"groups", "hosts", "uuids"}.isdisjoint(codec.job_to_json(running().state))


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
    Move: "action",
    PlacementAsk: "queue[0]",
    ResourceRequest: "action.request",
    Group: "",
}


STRANGERS = ("fence", "avoid_host", "index")


@pytest.mark.parametrize(
    ("kind", "field"),
    [(kind, field) for kind in RECORDS for field in STRANGERS],
)
def test_a_field_that_is_none_of_its_record_is_refused_by_its_name(kind: type, field: str) -> None:
    """Half a state is no state to lead on."""
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


@pytest.mark.parametrize("value", [None, 7, [], "job"])
def test_what_is_no_object_is_no_job(value: Any) -> None:
    """Whatever a topic has under the job's key."""
    with pytest.raises(MalformedRecord, match="field job:"):
        codec.job_from_json(value)
