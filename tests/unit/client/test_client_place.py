"""A placement request as it is written, once, and what it returns when it is repeated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from samza_dagster.errors import Refused, Unreachable
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.model import StatusCode
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE

pytestmark = pytest.mark.unit

UUID = "88b0d30c-d518-4307-9e8e-c8529eb30f04"
KEY = f"{UUID}.ContainerPlacementRequestMessage"


def test_the_record_has_what_samza_reads(job: Any) -> None:
    """Every field that Samza's reader needs, the expiry in ms, and no other."""
    request = job.client().place("0", "host-2", request_expiry_s=10, uuid=UUID)
    written = json.loads(job.store.get(PLACEMENT_NAMESPACE, KEY))
    assert written == {
        "subType": "ContainerPlacementRequestMessage",
        "uuid": UUID,
        "deploymentId": "1795264662180-8201457e",
        "processorId": "0",
        "destinationHost": "host-2",
        "statusCode": "CREATED",
        "timestamp": job.now_ms,
        "requestExpiry": 10_000,
    }
    assert request.to_json() == written


def test_a_restart_is_a_request_for_the_present_host(job: Any) -> None:
    """A container's own host is no conflict, nor is LAST_SEEN."""
    client = job.client()
    assert client.place("0", "host-1").destination_host == "host-1"
    assert client.place("0-0", "LAST_SEEN").destination_host == "LAST_SEEN"


def test_the_same_uuid_writes_once(job: Any) -> None:
    """Repeated while the request waits, it returns the one that stands."""
    client = job.client()
    first = client.place("0", "host-2", uuid=UUID)
    end = job.store.end_position()
    job.now_ms += 5_000
    assert client.place("0", "host-2", uuid=UUID.upper()) == first
    assert job.store.end_position() == end


def test_the_same_uuid_writes_nothing_after_its_outcome(job: Any) -> None:
    """Also when the container has moved since, so that the rules would now refuse."""
    client = job.client()
    client.place("0", "host-2", uuid=UUID)
    job.store.remove(PLACEMENT_NAMESPACE, KEY)
    job.respond(UUID, StatusCode.SUCCEEDED, "done")
    end = job.store.end_position()
    again = client.place("0", "host-2", uuid=UUID)
    assert (again.uuid, again.processor_id, again.destination_host) == (UUID, "0", "host-2")
    assert job.store.end_position() == end


def test_a_uuid_that_our_coordinator_took_writes_nothing(job: Any) -> None:
    """Its response may have been cleaned up; the coordinator remembers the UUID."""
    job.led_by_ours(uuids=frozenset({UUID}))
    end = job.store.end_position()
    assert job.client().place("0", "host-2", uuid=UUID).uuid == UUID
    assert job.client().place("0", "host-3", uuid=UUID).uuid == UUID  # refused were it new
    assert job.store.end_position() == end


def test_plan_writes_nothing_and_judges_every_host(job: Any) -> None:
    """Per host the rule, what was seen, and the smallest change that makes it legal."""
    job.led_by_ours()
    end = job.store.end_position()
    plan = job.client().plan("0", "host-3")
    assert job.store.end_position() == end
    verdicts = {v.host: v for v in plan.hosts}
    assert [h for h, v in verdicts.items() if v.legal] == ["host-1", "host-2", "host-4", "host-5"]
    assert verdicts["host-3"].fix == "move 0-0 first: samza-dagster place 0-0 --to host-2"
    assert plan.refusal is not None
    assert plan.steps == ()
    assert json.loads(json.dumps(plan.to_json()))["mode"] == "Active"


def test_a_full_host_is_legal_but_not_ready(job: Any) -> None:
    """The request waits there until its expiry: a notice, no refusal."""
    state = job.led_by_ours()
    full = state.hosts["host-5"].__class__("host-5", "alive", 1024, 100, 4, 0)
    job.led_by_ours(hosts={**state.hosts, "host-5": full})
    plan = job.client().plan("0", "host-5")
    assert plan.refusal is None
    assert "100 MiB free, 384 needed, 0 cores free, 1 needed" in plan.notices[0]


def test_a_restart_on_a_full_host_isnt_called_ready(job: Any) -> None:
    """Reserve comes before stop, so it needs room beside the running one; what needs none is named."""
    state = job.led_by_ours()
    full = state.hosts["host-1"].__class__("host-1", "alive", 1024, 100, 4, 3)
    job.led_by_ours(hosts={**state.hosts, "host-1": full})
    (verdict,) = (v for v in job.client().plan("0", "host-1").hosts if v.host == "host-1")
    assert (verdict.legal, verdict.ready) == (True, False)
    assert "100 MiB free, 384 needed beside the running one" in verdict.seen
    assert "FORCE_RESTART_LAST_SEEN" in verdict.fix


def test_what_samzas_am_does_otherwise_is_said(job: Any) -> None:
    """Host affinity off: the AM takes any host and echoes the one that was asked for."""
    job.configure("job.host-affinity.enabled", "false")
    for destination in ("host-2", "LAST_SEEN", "ANY_HOST"):
        plan = job.client().plan("0", destination)
        assert "ANY_HOST" in plan.notices[0]
        assert plan.host is None
    assert job.client().place("0", "ANY_HOST").destination_host == "ANY_HOST"


@pytest.mark.parametrize(("pid", "host"), [("0", "host-2"), ("0-0", "host-2"), ("1", "host-1")])
def test_any_host_is_named_where_samzas_am_would_look_at_the_rules_too_late(
    job: Any, pid: str, host: str
) -> None:
    """It stopped a standby for the host of its own active; the plan and the request name a legal one."""
    plan = job.client().plan(pid, "ANY_HOST")
    assert (plan.destination, plan.host, plan.refusal) == (host, host, None)
    assert "only after it has stopped" in plan.notices[0]
    assert job.client().place(pid, "ANY_HOST", uuid=UUID).destination_host == host
    end = job.store.end_position()
    assert job.client().place(pid, "ANY_HOST", uuid=UUID).destination_host == host
    assert job.store.end_position() == end


def test_where_no_known_host_is_legal_any_host_says_how_to_name_one(job: Any) -> None:
    for pid in ("1", "1-0"):
        job.store.remove(stream.SET_CONTAINER_HOST, pid)
    with pytest.raises(Refused, match="no other host is legal") as raised:
        job.client().place("0", "ANY_HOST")
    assert "--allow-unknown-host" in raised.value.fix


def test_a_write_without_an_answer_names_the_uuid_to_repeat(
    job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record may stand: only the same UUID makes a second try safe."""

    def put(*_: object) -> int:
        raise Unreachable("write", seen="no answer", fix="start the brokers")

    monkeypatch.setattr(job.store, "put", put)
    with pytest.raises(Unreachable, match="isn't known") as raised:
        job.client().place("0", "host-2", uuid=UUID)
    assert f"again with UUID {UUID}" in raised.value.fix
