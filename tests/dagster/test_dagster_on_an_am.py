"""Every placement job where Samza's own AM coordinates, on a world that shows what a real one shows."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest
from bounce_runs import bounce, in_virtual_time
from bounce_runs import metadata as bounce_metadata
from judged_runs import AS_BEFORE, drained_world
from placement_runs import Run
from run_results import failure, output_metadata
from test_dagster_reexecution import CONTAINER, execute, from_failure

from samza_dagster.client import PlacementClient
from samza_dagster.client.views import ProcessorView
from samza_dagster.metadata.resource_manager import Application, Cluster, YarnNode
from samza_dagster.placement import texts
from tests.chaos.am_judge import Outcome
from tests.chaos.am_requests import DAGSTER, REFUSED_THERE, config, drawn
from tests.rig import stepped_am
from tests.rig.am_asking import of_run
from tests.rig.bounce_world import BounceWorld
from tests.rig.stepped_job import FAILED, SUCCEEDED, SteppedJob

pytestmark = pytest.mark.dagster
ASKED = {
    "move_container": {"processor": "0", "destination": "host-2"},
    "move_with_standby": {"processor": "0"},
    "restart_container": {"processor": "1"},
    "relocate_standby": {"processor": "0-0"},
    "drain_host": {"host": "host-1", "steady_s": 0},
}
THERE = {
    "move_container": {**AS_BEFORE, "0": "host-2"},
    "move_with_standby": {**AS_BEFORE, "0": "host-3", "0-0": "host-2"},
    "restart_container": AS_BEFORE,
    "relocate_standby": {**AS_BEFORE, "0-0": "host-2"},
    "drain_host": {**AS_BEFORE, "0": "host-3", "0-0": "host-2"},
}
REFUSED = {
    "fail_over": ({"processor": "0"}, "move_with_standby"),
    "spin_up_standby": ({"processor": "0"}, "job.standbytasks.replication.factor"),
    "move_via_new_standby": ({"processor": "0"}, "job.standbytasks.replication.factor"),
    "move_container": ({"processor": "0", "destination": "STANDBY"}, "place 0-0 --to host-2"),
}


@pytest.fixture(autouse=True)
def am(world: SteppedJob) -> SteppedJob:
    """The demo job under an AM. The hosts that our coordinator would know count for nothing."""
    world.coordinator = "samza"
    world.lag_now = {pid: [0] for pid in world.at}
    return world


def processor(world: SteppedJob, processor_id: str) -> ProcessorView:
    return world.view().processors[processor_id]


@pytest.mark.parametrize("job", ASKED)
def test_each_job_does_what_it_was_asked_and_says_so(world: SteppedJob, run: Run, job: str) -> None:
    """Its containers are where it says, by placements alone."""
    result = run(job, **ASKED[job])
    assert result.success
    assert world.at == THERE[job]
    assert set(world.kinds.values()) == {"place"}
    assert {answers[-1].status_code for answers in world.answers.values()} == {SUCCEEDED}
    assert {p.host for p in world.view().processors.values()} == {*THERE[job].values()}


@pytest.mark.parametrize("job", ASKED)
def test_each_dry_run_names_the_hosts_and_writes_nothing(
    world: SteppedJob, run: Run, job: str
) -> None:
    result = run(job, dry_run=True, **ASKED[job])
    assert result.success
    assert world.requests == {}
    text = result.output_for_node(f"plan_{job}", "preview")
    went = {pid: host for pid, host in THERE[job].items() if AS_BEFORE[pid] != host}
    assert all(f"`{host}`" in text for host in went.values())
    assert "ANY_HOST" not in text


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_rolling_bounce_goes_by_placements_alone(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, *, dry_run: bool
) -> None:
    bounced = BounceWorld(coordinator="samza")
    in_virtual_time(bounced, monkeypatch)
    result = bounce(instance, at_once=2, dry_run=dry_run)
    assert result.success
    assert bounced.restarts() == ({} if dry_run else dict.fromkeys(bounced.at, 1))
    assert "Samza's wire has no hold" in bounce_metadata(result, "plan_bounce")["what"]


def test_where_it_is_is_known_before_its_container_has_written_it(
    world: SteppedJob, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locality comes seconds after SUCCEEDED: a second move goes out from where it is by then."""
    monkeypatch.setattr(stepped_am, "REPORTS_AFTER", 10**6)
    assert run("move_container", **ASKED["move_container"]).success
    result = run("move_container", processor="0", destination="host-4")
    assert result.success
    shown = output_metadata(result, "plan_move_container")
    assert (shown["source_host"], world.at["0"]) == ("host-2", "host-4")


@pytest.mark.parametrize("job", ["move_with_standby", "drain_host"])
def test_the_host_that_a_standby_has_left_is_still_one(
    world: SteppedJob, run: Run, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    """Nobody is on it once the standby has reported from elsewhere, and the active was refused it."""
    monkeypatch.setattr(stepped_am, "REPORTS_AFTER", 0)
    assert run(job, **ASKED[job]).success
    assert world.at == THERE[job]


def test_launched_is_not_yet_processing(world: SteppedJob, run: Run) -> None:
    """What its former process committed up to its stop is no sign of the new one."""
    world.processes = False
    config = {**ASKED["move_container"], "verify_timeout_s": 1}
    result = run("move_container", **config)
    assert "0 processes within 1 s" in failure(result, "verify_placement")[0]


def test_a_standby_that_was_launched_and_never_reports_is_not_moved(
    world: SteppedJob, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The AM says SUCCEEDED of a process that ends as it begins, too."""
    monkeypatch.setattr(stepped_am, "REPORTS_AFTER", 10**6)
    result = run("relocate_standby", processor="0-0", verify_timeout_s=1)
    assert "0-0 reports from host-2 within 1 s" in failure(result, "verify_placement")[0]


def test_work_on_several_goes_on_only_when_a_standby_that_was_launched_has_reported(
    world: SteppedJob, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its active would be stopped while no warm copy of it runs anywhere."""
    monkeypatch.setattr(stepped_am, "REPORTS_AFTER", 10**6)
    config = {**ASKED["drain_host"], "verify_timeout_s": 1}
    result = run("drain_host", **config)
    assert "0-0 reports from host-2 within 1 s" in failure(result, "drain")[0]
    assert [asked for asked in world.asked if asked[0].startswith("0")] == [("0-0", "host-2")]


def test_a_forced_restart_is_no_more_than_a_stop_that_was_issued(
    world: SteppedJob, run: Run
) -> None:
    """The AM says SUCCEEDED then, while the former process may still commit."""
    asked = {"processor": "0", "destination": "FORCE_RESTART_LAST_SEEN"}
    result = run("move_container", **asked)
    assert result.success
    assert output_metadata(result, "verify_placement")["verified"].startswith("its stop was issued")


@pytest.mark.parametrize("pid", ["0", "0-0"])
def test_any_host_is_named_before_the_am_stops_anything(
    world: SteppedJob, run: Run, pid: str
) -> None:
    """It took the active's own host for a standby, stopped that, and fell back: a bounce for nothing."""
    world.any_host = "host-1" if pid == "0-0" else "host-3"
    asked = {"processor": pid, "destination": "ANY_HOST"}
    dry = run("move_container", dry_run=True, **asked)
    assert "reserve `host-2`" in dry.output_for_node("plan_move_container", "preview")
    assert run("move_container", **asked).success
    assert world.asked == [(pid, "host-2")]
    assert world.at[pid] == "host-2"


def test_without_a_legal_host_that_is_known_any_host_is_refused(
    world: SteppedJob, run: Run
) -> None:
    """The cluster may have more hosts than the metadata tells: one can be named."""
    world.at = {"0": "host-1", "0-0": "host-3"}
    asked = {"processor": "0", "destination": "ANY_HOST"}
    result = run("move_container", **asked)
    assert "allow_unknown_host: true" in failure(result, "plan_move_container")[1]["fix"]
    assert world.requests == {}


@pytest.mark.parametrize(
    ("job", "pid"), [("move_container", "0"), ("move_with_standby", "0"), ("relocate_standby", "0-0")]
)  # fmt: skip
def test_a_host_that_no_container_reported_may_be_named(
    world: SteppedJob, run: Run, job: str, pid: str
) -> None:
    """As the CLI has it: refused unless it is said so."""
    asked = {"processor": pid, "destination": "host-9"}
    result = run(job, **asked)
    assert "hosts host-1, host-2, host-3, host-4" in failure(result, f"plan_{job}")[0]
    assert world.requests == {}
    result = run(job, allow_unknown_host=True, **asked)
    assert result.success
    assert world.at[pid] == "host-9"


def test_without_host_affinity_the_host_that_was_asked_for_is_nobodys(
    world: SteppedJob, run: Run
) -> None:
    """The AM takes any, and echoes the one that it was asked for."""
    world.host_affinity = False
    result = run("move_container", **ASKED["move_container"])
    assert result.success
    assert result.output_for_node("verify_placement") == "host-4" == world.at["0"]
    assert "host-affinity" in output_metadata(result, "plan_move_container")["what"]


@pytest.mark.parametrize("job", ["move_with_standby", "drain_host"])
def test_without_host_affinity_what_needs_a_named_host_is_refused(
    world: SteppedJob, run: Run, job: str
) -> None:
    world.host_affinity = False
    result = run(job, **ASKED[job])
    assert "job.host-affinity.enabled" in failure(result, f"plan_{job}")[0]
    assert world.requests == {}


@pytest.mark.parametrize("job", REFUSED)
def test_what_an_am_cant_do_is_refused_before_anything_is_written(
    world: SteppedJob, run: Run, job: str
) -> None:
    """With what does the same there, be its lag told or not."""
    asked, instead = REFUSED[job]
    for world.report_every_s in (60, None):
        result = run(job, **asked)
        text = failure(result, f"plan_{job}")[0]
        assert instead in text
        assert "control-standby" not in text
        assert world.requests == {}


@pytest.mark.parametrize("job", ["move_container", "drain_host"])
def test_a_run_whose_destination_dies_between_stop_and_start_says_so_at_once(
    world: SteppedJob,
    instance: dg.DagsterInstance,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    job: str,
) -> None:
    """As the ResourceManager does; the AM itself is silent for three minutes."""
    real, hosts = SteppedJob.go_on, dict.fromkeys(world.hosts, "RUNNING")

    def yarn() -> Cluster:
        nodes = {host: YarnNode(host, state) for host, state in hosts.items()}
        return Cluster("http://rm:8088", nodes, Application("application_1_0001", "RUNNING"))

    def go_on(world: SteppedJob, uuid: str) -> Any:
        response = real(world, uuid)
        if response is not None and response.response_message == texts.STOP_IN_PROGRESS:
            hosts["host-2"] = "LOST"
            world.yarn = yarn()
        return response

    world.yarn, world.status_s = yarn(), 5
    world.ends = [(FAILED, texts.start_failed("host-2", "host-1"))]
    monkeypatch.setattr(SteppedJob, "go_on", go_on)
    result = run(job, **ASKED[job])
    assert not result.success
    logged = [
        entry
        for entry in instance.all_logs(result.run_id)
        if "host-2 is LOST" in entry.user_message
    ]
    assert logged
    assert "NodeManager of host-2 back" in logged[0].user_message


def test_a_run_whose_am_is_replaced_ends_at_once_and_says_why(
    world: SteppedJob, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new one knows nothing of what is in flight; a re-execution asks anew instead of following it."""
    real = SteppedJob.go_on

    def go_on(world: SteppedJob, uuid: str) -> Any:
        response = real(world, uuid)
        if response is not None and response.response_message == texts.STOP_IN_PROGRESS:
            monkeypatch.setattr(SteppedJob, "go_on", real)
            stepped_am.replaced(world)
        return response

    monkeypatch.setattr(SteppedJob, "go_on", go_on)
    done, first = execute(instance, job="move_container", config=CONTAINER)
    assert not done
    told = " ".join(str(entry.dagster_event) for entry in instance.all_logs(first))
    assert "over: deployment run-1 ended; run-2 runs" in told
    assert from_failure(instance, first, "move_container", CONTAINER)
    assert [r.deployment_id for r in world.requests.values()] == ["run-1", "run-2"]
    assert world.at["0"] == "host-2"


def test_a_drain_whose_am_is_replaced_ends_with_its_name_and_the_next_one_goes_on(
    world: SteppedJob, run: Run
) -> None:
    """A request that nobody took is gone with the AM that it was written for."""
    real, full = PlacementClient.response, drained_world()
    world.at, world.lag_now = full.at, full.lag_now

    def response(client: PlacementClient, uuid: str) -> Any:
        if world.deployment == "run-1" and len(world.requests) == 2:
            stepped_am.replaced(world)
        return real(client, uuid)

    config = {"host": "host-1", "cold": True, "steady_s": 0}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PlacementClient, "response", response)
        result = run("drain_host", **config)
    assert "over: deployment run-1 ended; run-2 runs" in failure(result, "drain")[0]
    assert run("drain_host", **config).success
    assert "host-1" not in world.at.values()


@pytest.mark.parametrize("kind", sorted(DAGSTER.keys() - {"rolling_bounce"}))
def test_each_job_that_is_drawn_for_a_real_am_ends_with_a_word_that_can_be_judged(
    world: SteppedJob, run: Run, kind: str
) -> None:
    """Its config is one that the job takes, and where it claims that containers are they are."""
    hosts = sorted(set(AS_BEFORE.values()))
    ask = next(each for each in drawn(1, 60, actives=2, hosts=hosts) if each.kind == kind)
    given = config(ask)
    result = run(kind, **given)
    outcome, claims, said = of_run(ask, result, actives=2)
    assert outcome is not Outcome.BROKEN, said
    assert outcome is Outcome.REFUSED or kind not in REFUSED_THERE
    for claim in claims:
        if not claim.processor:
            assert claim.host not in world.at.values()
        elif claim.host:
            assert world.at[claim.processor] == claim.host
