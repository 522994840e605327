"""What is asked through our own topic: checked first, written once, and found again by its UUID."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from samza_dagster.client.responses import is_held
from samza_dagster.client.state_source import leader_view
from samza_dagster.errors import InvalidInput, MissingPrerequisite, Refused
from samza_dagster.metadata.cleanup import Where
from samza_dagster.model import PlacementResponse, ResponseDetails, StatusCode
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import texts
from samza_dagster.placement.state import Failover, Incarnation, Limits, Orphan, Stage

pytestmark = pytest.mark.unit

UUID = "88b0d30c-d518-4307-9e8e-c8529eb30f04"
MOVE = "11111111-1111-4111-8111-111111111111"
Ask = Callable[[Any], Any]

ASKS: list[tuple[Ask, str, str, str]] = [
    (lambda c: c.reserve("0", "host-2", uuid=UUID), "place", "0", "host-2"),
    (lambda c: c.start_standby("0", "host-2", uuid=UUID), "start-standby", "0", "host-2"),
    (lambda c: c.start_standby("0", uuid=UUID), "start-standby", "0", "ANY_HOST"),
    (lambda c: c.stop_standby("0-0", uuid=UUID), "stop-standby", "0-0", "host-3"),
    (lambda c: c.stop_standby("0", uuid=UUID), "stop-standby", "0-0", "host-3"),
    (lambda c: c.fail_over("1", uuid=UUID), "fail-over", "1", "STANDBY"),
]


@pytest.mark.parametrize(("ask", "kind", "processor", "destination"), ASKS)
def test_a_request_of_our_own_is_written_to_our_topic_alone(
    job: Any, ask: Ask, kind: str, processor: str, destination: str
) -> None:
    """With the running deployment; a repeated call writes nothing more."""
    state = job.led_by_ours()
    end = job.store.end_position()
    with job.client() as client:
        asked = ask(client)
        assert (asked.kind, asked.processor_id, asked.destination_host) == (
            kind,
            processor,
            destination,
        )
        written = job.mailbox.position
        assert ask(client) == asked
        assert client.own_request(UUID) == asked
    assert job.mailbox.position == written == 1
    assert job.store.end_position() == end
    (request,) = job.mailbox.mail().requests.values()
    assert request.deployment_id == state.deployment_id
    assert request.hold == (kind == "place")


REFUSED: list[tuple[Ask, type[InvalidInput], str, str]] = [
    (lambda c: c.reserve("0", "host-3"), Refused, "0-0 is on host-3", "place 0-0 --to"),
    (lambda c: c.reserve("9", "host-2"), InvalidInput, "processors 0", "one of the processors"),
    (lambda c: c.start_standby("0", "host-1"), Refused, "active 0 is on host-1", ""),
    (lambda c: c.start_standby("0", "host-3"), Refused, "0-0 is on host-3", ""),
    (lambda c: c.start_standby("0-0"), InvalidInput, "is a standby", "start 0"),
    (lambda c: c.start_standby("0", "host-99"), InvalidInput, "hosts host-1", ""),
    (lambda c: c.stop_standby("9"), InvalidInput, "processors 0", ""),
    (lambda c: c.fail_over("0-0"), InvalidInput, "is a standby", "fail-over 0"),
    (lambda c: c.reserve("0", "host-2", request_expiry_s=-1), InvalidInput, "-1", ""),
    (lambda c: c.cancel("no uuid"), InvalidInput, "no uuid", ""),
    (lambda c: c.cancel(MOVE), InvalidInput, "no such request", "status"),
]


@pytest.mark.parametrize(("ask", "error", "seen", "fix"), REFUSED)
def test_what_a_rule_forbids_is_refused_before_it_is_written(
    job: Any, ask: Ask, error: type[InvalidInput], seen: str, fix: str
) -> None:
    """With the rule, what was seen and the smallest change."""
    job.led_by_ours()
    with job.client() as client, pytest.raises(error) as raised:
        ask(client)
    assert seen in raised.value.seen
    assert fix in raised.value.fix
    assert job.mailbox.position == 0


def test_a_fail_over_names_the_incarnation_that_somebody_looked_at(job: Any) -> None:
    """It stands in the request; without one the record has no such field, as older ones."""
    state = job.led_by_ours()
    incarnation = state.groups["1"].processors["1"].incarnation
    with job.client() as client:
        asked = client.fail_over("1", uuid=UUID, execution_id=incarnation.execution_id)
        assert asked.execution_id == incarnation.execution_id
        assert client.fail_over("1", uuid=UUID, execution_id=incarnation.execution_id) == asked
        plain = client.fail_over("1")
    requests = job.mailbox.mail().requests
    assert requests[UUID].to_wire()["executionId"] == incarnation.execution_id
    assert "executionId" not in requests[plain.uuid].to_wire()


def test_a_fail_over_of_an_incarnation_that_is_gone_is_refused_before_it_is_written(
    job: Any,
) -> None:
    """With the one that runs by now."""
    state = job.led_by_ours()
    now = state.groups["1"].processors["1"].incarnation.execution_id
    with job.client() as client, pytest.raises(Refused, match=now) as raised:
        client.fail_over("1", execution_id="demo-1-000000")
    assert "demo-1-000000" in raised.value.asked
    assert "ask again" in raised.value.fix
    assert job.mailbox.position == 0


def test_no_more_standbys_than_the_limit(job: Any) -> None:
    """The coordinator's own limit, seen before it is asked."""
    job.led_by_ours(limits=Limits(max_standbys=1))
    with job.client() as client, pytest.raises(Refused, match="at most 1 standbys"):
        client.start_standby("0")


@pytest.mark.parametrize(
    ("stage", "error"),
    [(Stage.RESERVING, None), (Stage.HELD, None), (Stage.STOPPING, Refused)],
)
def test_a_cancel_comes_in_time_or_is_refused(
    job: Any, moving: Any, stage: Stage, error: type[InvalidInput] | None
) -> None:
    """It says which request it is about."""
    job.coordinator.state = moving(job.led_by_ours(), "0", "host-2", stage)
    with job.client() as client:
        if error is not None:
            with pytest.raises(error, match="before its container is stopped"):
                client.cancel(MOVE)
            return
        asked = client.cancel(MOVE, uuid=UUID)
        assert (asked.kind, asked.refers_to, asked.processor_id) == ("cancel", MOVE, "0")
        assert client.check_about(RequestKind.COMMIT, MOVE).stage == stage.value


@pytest.mark.parametrize("how", ["commit", "release", "cancel"])
def test_what_is_held_is_let_go_or_gone_on_with_by_a_request_about_it(
    job: Any, moving: Any, how: str
) -> None:
    """Each is a request of its own, and names the one that holds."""
    job.coordinator.state = moving(job.led_by_ours(), "0", "host-2", Stage.HELD)
    with job.client() as client:
        asked = getattr(client, how)(MOVE)
    assert (asked.kind, asked.refers_to, asked.processor_id) == (how, MOVE, "0")


def test_a_request_that_ended_cant_be_cancelled(job: Any) -> None:
    """Its outcome is told."""
    job.led_by_ours()
    job.respond(MOVE, StatusCode.SUCCEEDED, "done")
    with job.client() as client, pytest.raises(Refused, match="SUCCEEDED, done"):
        client.cancel(MOVE)


def answer(job: Any, status: StatusCode, message: str, stage: str = "") -> PlacementResponse:
    response = PlacementResponse(
        uuid=UUID,
        deployment_id=job.coordinator.state.deployment_id,
        processor_id="0",
        destination_host="host-2",
        status_code=status,
        timestamp=job.now_ms,
        response_message=message,
        details=ResponseDetails(stage=stage or None),
    )
    job.mailbox.answer(response)
    return response


def test_its_answers_are_waited_for_and_found_by_uuid(job: Any) -> None:
    """Like those of Samza's wire: by `wait`, `response` and `history`."""
    job.led_by_ours()
    with job.client() as client:
        client.reserve("0", "host-2", uuid=UUID)
        held = answer(job, StatusCode.IN_PROGRESS, texts.held("host-2", 5_000), "held")
        assert client.wait(UUID, timeout_s=5, until=is_held) == held
        done = answer(job, StatusCode.SUCCEEDED, "done")
        assert client.wait(UUID, timeout_s=5) == done
        assert client.response(UUID) == done
        assert client.own_request(UUID) is None
        assert client.history("0") == (done,)
        assert not is_held(done)


def test_another_request_under_the_same_uuid_is_refused(job: Any) -> None:
    """One UUID, one request."""
    job.led_by_ours()
    with job.client() as client:
        client.reserve("0", "host-2", uuid=UUID)
        with pytest.raises(Refused, match="one UUID, one request"):
            client.fail_over("0", uuid=UUID)
        with pytest.raises(Refused, match="one UUID, one request"):
            client.reserve("1", "host-3", uuid=UUID)


def test_a_client_over_stores_alone_says_what_it_lacks(job: Any) -> None:
    """Not an AttributeError."""
    from samza_dagster.client import PlacementClient

    client = PlacementClient.over(job.store, job_name="yw")
    with pytest.raises(MissingPrerequisite, match="requests of our own"):
        client.fail_over("0")


def test_a_standby_may_go_to_any_legal_host_in_a_forbidden_ones_stead(job: Any) -> None:
    """SEP-22's way, on request; an active is refused all the same."""
    job.led_by_ours()
    with job.client() as client:
        with pytest.raises(Refused):
            client.place("0-0", "host-1")
        with pytest.raises(Refused):
            client.place("0", "host-3", or_any_legal=True)
        assert client.place("0-0", "host-1", or_any_legal=True).destination_host == "ANY_HOST"
        assert client.place("0-0", "host-5", or_any_legal=True).destination_host == "host-5"
        plan = client.plan("0-0", "host-1", or_any_legal=True)
        assert plan.refusal is None
        assert "a rule forbids host-1" in plan.notices[0]


def test_standby_is_a_destination_of_our_coordinator(job: Any) -> None:
    """An active onto its standby's host, on Samza's own wire; the plan says who gives way."""
    job.led_by_ours()
    with job.client() as client:
        plan = client.plan("0", "STANDBY")
        assert (plan.refusal, plan.host) == (None, "host-3")
        assert "reserves a new host for the standby" in plan.steps[0]
        assert client.place("0", "STANDBY").destination_host == "STANDBY"


def test_plans_of_our_own_requests_write_nothing(job: Any) -> None:
    """Steps, verdicts on hosts, or why not."""
    job.led_by_ours()
    with job.client() as client:
        start = client.plan_own(RequestKind.START_STANDBY, "0", "host-2")
        assert (start.processor_id, start.host, start.refusal) == ("0-1", "host-2", None)
        legal = {v.host for v in start.hosts if v.legal}
        assert legal == {"host-2", "host-4", "host-5"}
        refused = client.plan_own(RequestKind.START_STANDBY, "0", "host-1")
        assert refused.refusal is not None
        assert refused.steps == ()
        stop = client.plan_own(RequestKind.STOP_STANDBY, "0")
        assert stop.processor_id == "0-0"
        over = client.plan_own(RequestKind.FAIL_OVER, "0")
        assert "0-0 on host-3" in over.steps[0]
    assert job.mailbox.position == 0


def test_what_goes_wrong_is_shown(job: Any) -> None:
    """A failover in progress, a process on a silent host, a container that fails again and again."""
    state = job.led_by_ours(limits=Limits(retry_count=1, retry_window_ms=10_000))
    group = state.groups["0"]
    active = replace(
        group.processors["0"], failed_at_ms=(job.now_ms - 5, job.now_ms - 3), failures=7
    )
    orphan = Orphan("0", Incarnation(1, "e1", "host-1", "r"), 1, 2, ran=True)
    changed = replace(
        group,
        processors={**group.processors, "0": active},
        failover=Failover("0", "0-0", "host-3", 4, "host-1 is silent"),
        orphans=(orphan,),
    )
    job.coordinator.state = replace(state, groups={**state.groups, "0": changed})
    with job.client() as client:
        view = client.view()
    assert view.processors["0"].flapping
    assert view.processors["0"].failures == 7
    assert not view.processors["1"].flapping
    assert view.failovers[0].why == "host-1 is silent"
    assert (view.orphans[0].host, view.orphans[0].ended) == ("host-1", None)


def test_the_leader_and_its_counters_are_shown() -> None:
    """From its last sign of life in the state topic; odd values are left out."""
    record = {
        "epoch": 4,
        "host": "h",
        "coordinator_url": "http://h:1",
        "since_ms": 5,
        "beat_ms": "soon",
        "counters": {"failovers-to-standby": 2, "odd": "x"},
    }
    leader = leader_view(record)
    assert (leader.epoch, leader.since_ms, leader.beat_ms, leader.ended) == (4, 5, None, False)
    assert leader.counters == {"failovers-to-standby": 2}
    assert leader_view({}).counters == {}


def test_gc_removes_from_both_topics_what_is_finished(job: Any) -> None:
    """And lists the same before it does; afterwards there is nothing."""
    job.led_by_ours()
    job.respond(MOVE, StatusCode.SUCCEEDED, "done", timestamp=1)
    with job.client() as client:
        client.reserve("0", "host-2", uuid=UUID)
        answer(job, StatusCode.FAILED, "no")
        assert [r.uuid for r in client.unneeded(older_than_s=3600)] == [MOVE]
        beat = leader_view({"beat_ms": job.now_ms + 3_700_000})
        job.coordinator.state = replace(job.coordinator.state, leader=beat)
        found = client.unneeded(older_than_s=3600)
        assert {(r.uuid, r.where) for r in found} == {
            (MOVE, Where.COORDINATOR_STREAM),
            (UUID, Where.STATE_TOPIC),
        }
        assert client.remove(found) == 2
        assert client.unneeded(older_than_s=3600) == ()
        assert client.response(UUID) is client.response(MOVE) is None


@pytest.mark.parametrize("ours", [True, False])
def test_gc_of_a_machine_whose_clock_is_days_ahead_takes_no_answer_early(
    job: Any, ours: bool
) -> None:
    """The age of an answer is by the clock of whoever answers: its newest one is of now."""
    if ours:
        job.led_by_ours(leader=leader_view({"beat_ms": job.now_ms}))
    job.respond(MOVE, StatusCode.SUCCEEDED, "done", timestamp=job.now_ms - 7_200_000)
    job.respond(UUID, StatusCode.FAILED, "no", timestamp=job.now_ms)
    job.now_ms += 5 * 86_400_000
    with job.client() as client:
        assert [r.uuid for r in client.unneeded(older_than_s=3_600)] == [MOVE]
        assert {r.uuid for r in client.unneeded(older_than_s=0)} == {MOVE, UUID}
