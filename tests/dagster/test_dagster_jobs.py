"""The placement jobs, in process, over a world that answers as a coordinator does."""

from __future__ import annotations

import dagster as dg
import pytest
from dagster import serialize_value
from placement_runs import Run, too_late
from run_results import asks, failure, output_metadata

from samza_dagster.client import PlacementClient
from samza_dagster.client.checkpoints import ProcessorProgress
from samza_dagster.client.views import HostView
from samza_dagster.model import StatusCode
from samza_dagster.orchestration.requests.step_request import request_uuid
from tests.rig.stepped_job import BAD_REQUEST, EXPIRED, NOT_STARTED, SteppedJob

pytestmark = pytest.mark.dagster
JOBS = [
    *("move_with_standby", "move_container", "restart_container", "fail_over"),
    "spin_up_standby",
]


def test_on_our_coordinator_the_active_takes_the_standby_s_place_by_one_request(
    world: SteppedJob, run: Run
) -> None:
    """SEP-22's second phase is one action: the standby leaves, the active arrives."""
    result = run("move_with_standby", processor="0")
    assert result.success
    assert world.asked == [("0", "STANDBY")]
    assert list(world.requests) == [request_uuid(result.run_id, "move", 0)]
    assert world.at == {"0": "host-3", "0-0": "host-2", "1": "host-2", "1-0": "host-4"}
    assert result.output_for_node("verify_placement") == "host-3"
    ops = ("move_standby_away", "reserve", "stop", "move")
    assert asks(result, *ops) == ["asks", "observes", "observes", "observes"]


def test_each_stage_of_the_one_request_is_told(world: SteppedJob, run: Run) -> None:
    """The op that frees the host ends when it is free; the timeline has every stage once."""
    result = run("move_with_standby", processor="0")
    rows = output_metadata(result, "verify_placement")["timeline_table"].records
    stages = ["RESERVING_STANDBY", "STOPPING_STANDBY", "RESERVING", "STOPPING", "ENDED"]
    assert [r.data["stage"] for r in rows] == stages
    for op, count in (("move_standby_away", 3), ("reserve", 4), ("move", 5)):
        assert len(output_metadata(result, op)["timeline_table"].records) == count


def test_under_samza_s_am_the_standby_leaves_by_a_request_of_its_own(
    world: SteppedJob, run: Run
) -> None:
    """Two requests, in order, with the host of most free memory for the standby."""
    world.coordinator = "samza"
    result = run("move_with_standby", processor="0")
    assert result.success
    assert world.asked == [("0-0", "host-2"), ("0", "host-3")]
    assert world.at == {"0": "host-3", "0-0": "host-2", "1": "host-2", "1-0": "host-4"}
    assert list(world.requests) == [
        request_uuid(result.run_id, "relocate_standby", 0),
        request_uuid(result.run_id, "move", 0),
    ]
    assert {r.request_expiry for r in world.requests.values()} == {120_000}
    ops = ("move_standby_away", "reserve", "stop", "move")
    assert asks(result, *ops) == ["asks", "asks", "observes", "observes"]
    assert "no hold" in output_metadata(result, "reserve")["role"]


def stopped_of_late(world: SteppedJob, processor: str, times: int) -> None:
    """By whomever; Samza's AM counts them."""
    world.coordinator = "samza"
    for uuid in list(world.answers):
        world.forget(uuid)
    world.restarted_by_others(processor, (world.now_ms - 10_000 * n for n in range(times, 0, -1)))


def test_a_move_that_would_be_half_done_by_the_stops_that_samza_s_am_counts_asks_nothing(
    world: SteppedJob, run: Run
) -> None:
    """Its standby could leave; the active's own stop may be the job's end."""
    stopped_of_late(world, "0", 7)
    result = run("move_with_standby", processor="0")
    assert "this would be stop 8 of 0 in a row" in failure(result, "plan_move_with_standby")[0]
    assert world.requests == {}
    stopped_of_late(world, "0", 6)
    dry = run("move_with_standby", processor="0", dry_run=True)
    assert (
        "this would be stop 7 of 0 in a row"
        in output_metadata(dry, "plan_move_with_standby")["what"]
    )


def test_a_job_of_one_request_goes_beyond_the_budget_when_somebody_says_so(
    world: SteppedJob, run: Run
) -> None:
    """Its plan says what that may end."""
    stopped_of_late(world, "1", 7)
    job, plan = "restart_container", "plan_restart_container"
    assert "beyond_budget" in failure(run(job, processor="1"), plan)[0]
    assert world.requests == {}
    result = run(job, processor="1", beyond_budget=True)
    assert result.success
    assert "stop 9 of a row ends the job" in output_metadata(result, plan)["what"]
    assert world.asked == [("1", "LAST_SEEN")]


def test_a_choice_that_the_wire_cannot_say_is_made_by_two_requests(
    world: SteppedJob, run: Run
) -> None:
    """STANDBY names no standby: with two of them and one named, ours is told each host."""
    world.at["0-1"] = "host-4"
    result = run("move_with_standby", processor="0", standby="0-1")
    assert result.success
    assert world.asked == [("0-1", "host-2"), ("0", "host-4")]
    assert asks(result, "reserve", "stop", "move") == ["asks", "asks", "observes"]


def test_a_fail_over_is_one_request_of_our_own(world: SteppedJob, run: Run) -> None:
    """The standby gives way before it has a new place."""
    result = run("fail_over", processor="0")
    assert result.success
    assert list(world.kinds.values()) == ["fail-over"]
    assert world.at["0"] == "host-3"
    rows = output_metadata(result, "verify_placement")["timeline_table"].records
    stages = ["STOPPING_STANDBY", "RESERVING", "STOPPING", "ENDED"]
    assert [r.data["stage"] for r in rows] == stages


@pytest.mark.parametrize(
    ("config", "host"), [({}, "host-2"), ({"destination": "host-4"}, "host-4")]
)
def test_a_standby_is_relocated_to_the_host_named_or_the_one_with_most_room(
    world: SteppedJob, run: Run, config: dict[str, str], host: str
) -> None:
    """Away from its active and from where it is."""
    result = run("relocate_standby", processor="0-0", **config)
    assert result.success
    assert world.at == {"0": "host-1", "1": "host-2", "0-0": host, "1-0": "host-4"}


def test_relocate_standby_refuses_an_active(world: SteppedJob, run: Run) -> None:
    """Its fix names the job for it."""
    result = run("relocate_standby", processor="0")
    assert "fix: move_container" in failure(result, "plan_relocate_standby")[0]


def test_metadata_tells_the_map_the_timeline_and_the_seconds(world: SteppedJob, run: Run) -> None:
    """What an operator sees at the end of a run, as pictures and as tables."""
    world.coordinator = "samza"
    result = run("move_with_standby", processor="0")
    shown = output_metadata(result, "verify_placement")
    assert "![after:](data:image/svg+xml" in shown["hosts_and_containers"]
    rows = {r.data["host"]: r.data for r in shown["hosts_and_containers_table"].records}
    moved = {"before": "0-0 standby last-seen", "after": "0 active last-seen", "changed": True}
    assert rows["host-3"] == {"host": "host-3", **moved}
    assert rows["host-1"]["after"] == "-"
    assert rows["host-4"]["changed"] is False
    timeline = [(r.data["step"], r.data["status"]) for r in shown["timeline_table"].records]
    steps = ["IN_PROGRESS", "IN_PROGRESS", "SUCCEEDED"]
    assert timeline == [(s, t) for s in ("relocate_standby", "move") for t in steps]
    assert "STOPPING lasts until the container has checked in" in shown["timeline"]
    assert shown["move_stop_and_start_seconds"] == pytest.approx(0.25)
    assert shown["verified"] == "it was launched and processes"
    requests = [shown["relocate_standby_request"], shown["move_request"]]
    assert requests == list(world.requests)


def test_processing_is_asked_from_where_commits_ended_at_the_success(
    world: SteppedJob, run: Run
) -> None:
    """Progress that the container made before its move doesn't count, whatever its clock says."""
    run("move_container", processor="0", destination="host-2")
    assert world.since == 41


def test_a_container_that_does_not_process_fails_the_run(world: SteppedJob, run: Run) -> None:
    """SUCCEEDED isn't the end: started isn't yet processing."""
    world.processes = False
    result = run(
        "move_container",
        processor="0",
        destination="host-2",
        verify_timeout_s=1,
    )
    text, metadata = failure(result, "verify_placement")
    assert "processes within 1 s" in text
    assert "verify_timeout_s 0" in metadata["fix"]


def test_one_that_somebody_else_has_moved_before_it_processes_isnt_where_it_was_sent(
    world: SteppedJob, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit that is seen is of the container of the other move, and the run named its own host."""
    looked = PlacementClient.processing

    def moved_meanwhile(self: PlacementClient, processor_id: str, since: int) -> ProcessorProgress:
        world.at[processor_id] = "host-4"
        return looked(self, processor_id, since)

    monkeypatch.setattr(PlacementClient, "processing", moved_meanwhile)
    result = run("move_container", processor="0", destination="host-2")
    text, _ = failure(result, "verify_placement")
    assert "runs on host-2" in text
    assert "host-4" in text


def test_a_standby_is_moved_without_waiting_for_it_to_process(world: SteppedJob, run: Run) -> None:
    """A standby never processes input."""
    world.processes = False
    result = run("move_container", processor="0-0", destination="host-4")
    assert result.success
    assert world.asked == [("0-0", "host-4")]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        EXPIRED,
        (BAD_REQUEST, "BAD_REQUEST reason: container is already being moved"),
    ],
)
def test_what_the_coordinator_says_is_the_failure_s_text(
    world: SteppedJob, run: Run, status: StatusCode, text: str
) -> None:
    """FAILED and BAD_REQUEST fail the op with the text, the timeline and the map."""
    world.ends = [(status, text)]
    result = run("move_with_standby", processor="0")
    described, metadata = failure(result, "move_standby_away")
    assert described == f"move_standby_away: {status.value}: {text}"
    assert metadata["status"] == status.value
    assert metadata["timeline_table"].records[-1].data["message"] == text
    assert world.asked == [("0", "STANDBY")]
    assert (world.at["0"], world.at["0-0"]) == ("host-1", "host-3")


@pytest.mark.parametrize("job", JOBS)
def test_a_dry_run_writes_nothing_and_prints_the_plan(
    world: SteppedJob, run: Run, job: str
) -> None:
    """Every job has it; the ops that act are skipped."""
    more = {"destination": "host-2"} if job == "move_container" else {}
    result = run(job, processor="0", dry_run=True, **more)
    assert result.success
    assert world.requests == {}
    text = result.output_for_node(f"plan_{job}", "preview")
    assert "| host-4 | " in text
    assert [e.step_key for e in result.all_events if e.is_step_start] == [f"plan_{job}"]


def test_a_dry_run_names_the_host_that_the_standby_would_go_to(world: SteppedJob, run: Run) -> None:
    """The plan is what a run would do."""
    world.coordinator = "samza"
    result = run("move_with_standby", processor="0", dry_run=True)
    text = result.output_for_node("plan_move_with_standby", "preview")
    assert "1. standby `0-0` leaves `host-3` for `host-2`" in text
    assert "2. `0` on `host-1`: reserve `host-3`" in text


def test_an_unknown_processor_is_never_asked_for(world: SteppedJob, run: Run) -> None:
    """It would stop the placement thread of Samza's own Application Master."""
    result = run("move_with_standby", processor="7")
    text, metadata = failure(result, "plan_move_with_standby")
    assert "'7'" in text
    assert metadata["seen"] == "processors 0, 0-0, 1, 1-0"
    assert world.requests == {}


def test_an_illegal_destination_is_refused_before_anything_is_asked(
    world: SteppedJob, run: Run
) -> None:
    """An active and its standby never share a host."""
    result = run("move_container", processor="0", destination="host-3")
    text, metadata = failure(result, "plan_move_container")
    assert "0-0 is on host-3" in text
    assert text.count("seen:") == 1
    assert "-" not in metadata.values()
    assert world.requests == {}


def test_without_a_host_for_the_standby_nothing_is_asked(world: SteppedJob, run: Run) -> None:
    """The refusal names the rule that each host breaks."""
    world.coordinator = "samza"
    world.at = {"0": "host-1", "0-0": "host-3"}
    result = run("move_with_standby", processor="0")
    _, metadata = failure(result, "plan_move_with_standby")
    assert metadata["seen"] == "host-1 is the source; host-3 is the destination"
    assert world.requests == {}


def test_a_deadline_fails_the_run_and_says_that_the_action_goes_on(
    world: SteppedJob, run: Run
) -> None:
    """Giving up watching isn't cancelling, on a wire without a hold."""
    world.coordinator = "samza"
    world.breaks = {"wait": too_late()}
    result = run("move_container", processor="0", destination="host-2")
    text, metadata = failure(result, "reserve")
    assert "the coordinator goes on with it: re-execute this run" in text
    assert metadata["request"] == request_uuid(result.run_id, "move", 0)


def test_a_cancelled_run_says_what_is_in_flight(
    world: SteppedJob, instance: dg.DagsterInstance, run: Run
) -> None:
    """The log of a cancelled run names the request that the coordinator goes on with."""
    world.coordinator = "samza"
    world.breaks = {"wait": dg.DagsterExecutionInterruptedError()}
    result = run("move_container", processor="0", destination="host-2")
    assert not result.success
    log = " ".join(entry.user_message for entry in instance.all_logs(result.run_id))
    assert request_uuid(result.run_id, "move", 0) in log
    assert "cancelled while request" in log


def test_a_run_is_tagged_with_its_container_group_who_and_why(
    world: SteppedJob, instance: dg.DagsterInstance, run: Run
) -> None:
    """Also on an instance whose run coordinator isn't ours: late, by the first op."""
    result = run(
        "move_container",
        processor="0-0",
        destination="host-4",
        reason="disk is full",
        ticket="OPS-1",
        requested_by="kim",
    )
    run_tags = instance.get_run_by_id(result.run_id)
    assert run_tags is not None
    assert {k: v for k, v in run_tags.tags.items() if k.startswith("samza/")} == {
        "samza/job": "demo/1",
        "samza/action": "move_container",
        "samza/slot": "demo/1",
        "samza/container-group": "demo/1/0",
        "samza/why": "disk is full",
        "samza/ticket": "OPS-1",
        "samza/who": "kim",
    }


def test_one_client_serves_a_run_and_is_closed_with_it(world: SteppedJob, run: Run) -> None:
    """Six ops, one connection."""
    run("move_with_standby", processor="0")
    assert (world.opened, world.calls.of_name["prepare"], world.closed) == (1, 1, 1)


@pytest.mark.longdagster
@pytest.mark.parametrize("hosts", [100, 250, 1_000])
def test_a_thousand_containers_on_hosts_with_long_names_fit_into_each_event(
    world: SteppedJob, instance: dg.DagsterInstance, run: Run, hosts: int
) -> None:
    """Plan, failure and verification stay under 300 kB each; who moved is among what is shown."""

    def host(number: int) -> str:
        return f"host-{number % hosts}.prod.dc1.example.com"

    world.hosts = {
        host(n): HostView(host(n), "alive", free_memory_mb=100_000) for n in range(hosts)
    }
    world.at = {str(n): host(n) for n in range(500)} | {f"{n}-0": host(n + 7) for n in range(500)}
    for ends in ([NOT_STARTED], []):
        world.ends = [*ends]
        result = run("move_container", processor="0", destination=host(3))
        assert result.success is not bool(ends)
        for entry in instance.all_logs(result.run_id):
            assert len(serialize_value(entry)) < 300_000, entry.user_message[:80]
    rows = output_metadata(result, "verify_placement")["hosts_and_containers_table"].records
    assert {host(0), host(3)} <= {str(row.data["host"]) for row in rows if row.data["changed"]}
