"""Job `reconcile`: what is left half done is put right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest
from placement_runs import execute_job, placement_job
from run_results import output_metadata
from test_dagster_reexecution import execute

from samza_dagster.client import PlacementClient
from samza_dagster.client.plan import Plan
from samza_dagster.errors import Unreachable
from samza_dagster.model import PlacementResponse
from samza_dagster.placement import texts
from tests.rig.stepped_job import EXPIRED, NOT_STARTED, SteppedJob
from tests.rig.worker import Killed

pytestmark = pytest.mark.dagster
JOB = "reconcile"
VIA = {"ops": {"plan_move_via_new_standby": {"config": {"processor": "0", "steady_s": 0}}}}


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """One a test: what is left over is looked for among all runs."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def reconcile(
    instance: dg.DagsterInstance, job: str = JOB, **config: Any
) -> dg.ExecuteInProcessResult:
    return placement_job(job).execute_in_process(
        run_config={"ops": {f"plan_{job}": {"config": config}}},
        instance=instance,
        raise_on_error=False,
    )


def spin_up(instance: dg.DagsterInstance, **config: Any) -> dg.ExecuteInProcessResult:
    return reconcile(instance, "spin_up_standby", **{**_ASK, **config})


def kinds(world: SteppedJob) -> list[str]:
    return list(world.kinds.values())


def failed_text(result: dg.ExecuteInProcessResult, op: str) -> str:
    data = result.failure_data_for_node(op)
    assert data is not None
    assert data.user_failure_data is not None
    return str(data.user_failure_data.description)


def test_a_pin_is_brought_about_one_at_a_time_in_a_group(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Whoever is in the way leaves first; the other group goes beside it."""
    world.status_s = 10
    result = reconcile(instance, wanted={"0": "host-3", "1": "host-1"}, at_once=4)
    assert result.success
    assert (world.at["0"], world.at["1"]) == ("host-3", "host-1")
    assert world.busiest == 2
    for together in world.together:
        assert len({p[0] for p in together}) == len(together)


def test_a_dry_run_shows_steps_and_reasons_and_asks_nothing(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """What isn't asked for by it is among the findings."""
    world.at["0-0"] = "host-1"
    world.states["1-0"] = "waiting"
    result = reconcile(instance, dry_run=True)
    text = result.output_for_node("plan_reconcile", "preview")
    assert "it is on host-1 as 0 of its group is" in text
    shown = output_metadata(result, "plan_reconcile")
    assert [r.data["about"] for r in shown["findings"].records] == ["1-0"]
    assert world.requests == {}


@pytest.mark.parametrize("where", ["wait", texts.RESOURCES_REQUESTED, "lag"])
def test_a_standby_that_a_failed_run_left_over_is_removed(
    world: SteppedJob, instance: dg.DagsterInstance, where: str
) -> None:
    """Whether the worker was killed while it asked, or the move failed."""
    world.lag_now = {"0-1": [1]}
    world.breaks = {where: Killed()}
    assert not execute(instance, job="move_via_new_standby", config=VIA)[0]
    (uuid,) = world.requests
    while not (answers := world.answers.get(uuid)) or not answers[-1].status_code.is_terminal:
        world.go_on(uuid)  # the coordinator goes on without the run
    assert "0-1" in world.at
    assert reconcile(instance).success
    assert kinds(world) == ["start-standby", "stop-standby"]
    assert "0-1" not in world.at


def left_over_long_ago(world: SteppedJob, instance: dg.DagsterInstance) -> str:
    """A run was killed after it had spun up `0-1`; the answer is cleaned up since. Its request."""
    world.lag_now = {"0-1": [1]}
    world.breaks = {"lag": Killed()}
    assert not execute(instance, job="move_via_new_standby", config=VIA)[0]
    (uuid,) = world.requests
    assert world.answers[uuid][-1].status_code.is_terminal
    world.clean_up()
    return uuid


@pytest.mark.longdagster
def test_a_standby_whose_answer_is_cleaned_up_is_still_known_to_be_left_over(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The audit topic says which request has started it."""
    left_over_long_ago(world, instance)
    result = reconcile(instance)
    assert result.success
    assert output_metadata(result, "plan_reconcile")["findings"].records == []
    assert kinds(world) == ["start-standby", "stop-standby"]
    assert "0-1" not in world.at


@pytest.mark.longdagster
def test_a_standby_of_somebody_else_with_the_id_of_one_left_over_long_ago_stays(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """Also when the answers to both are cleaned up."""
    left_over_long_ago(world, instance)
    del world.at["0-1"]
    world.lag_now = {"0-1": [1]}
    assert spin_up(instance).success
    world.clean_up()
    assert reconcile(instance).success
    assert "0-1" in world.at


@pytest.mark.longdagster
@pytest.mark.parametrize("known", ["no topic", "no record"])
def test_a_standby_of_which_nobody_knows_who_asked_for_it_is_told(
    world: SteppedJob, instance: dg.DagsterInstance, known: str
) -> None:
    """It stays, and the run warns: it may be one that is left over."""
    left_over_long_ago(world, instance)
    if known == "no topic":
        world.breaks = {"audit": Unreachable("read the audit history", seen="no answer")}
    else:
        world.origins.clear()
    result = reconcile(instance)
    assert result.success
    (record,) = output_metadata(result, "plan_reconcile")["findings"].records
    assert record.data["about"] == "0-1"
    assert ("no answer" if known == "no topic" else "no start of it") in record.data["seen"]
    assert "control-standby stop 0-1" in record.data["to do"]
    assert "0-1" in world.at


@pytest.mark.longdagster
def test_a_standby_that_was_started_anew_under_the_id_of_one_left_over_stays(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The failed run's `0-1` is gone; the id was free, and somebody else's standby has it."""
    world.lag_now = {"0-1": [1]}
    world.breaks = {"lag": Killed()}
    assert not execute(instance, job="move_via_new_standby", config=VIA)[0]
    assert reconcile(instance).success
    assert "0-1" not in world.at
    assert spin_up(instance).success
    assert "0-1" in world.at
    assert reconcile(instance).success
    assert "0-1" in world.at


@pytest.mark.longdagster
def test_a_standby_of_a_chain_that_goes_on_or_ended_well_is_not_left_over(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """A move that was re-executed and kept its standby; a standby that was spun up to stay."""
    world.lag_now = {"0-1": [1], "1-1": [1]}
    config = {"ops": {"plan_move_via_new_standby": {"config": {**_ASK, "keep_standby": True}}}}
    world.breaks = {"lag": Killed()}
    done, first = execute(instance, job="move_via_new_standby", config=config)
    assert not done
    with execute_job(
        "move_via_new_standby",
        instance=instance,
        run_config=config,
        tags={"dagster/root_run_id": first, "dagster/parent_run_id": first},  # as the UI does
        reexecution_options=dg.ReexecutionOptions.from_failure(first, instance),
    ) as again:
        assert again.success
    assert "0-1" in world.at
    assert spin_up(instance, processor="1", destination="host-1").success
    before = len(world.requests)
    assert reconcile(instance).success
    assert len(world.requests) == before


_ASK = {"processor": "0", "destination": "host-4", "steady_s": 0}


def test_under_samza_s_am_it_moves_and_starts_nothing(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """What its wire can't do is told."""
    world.coordinator = "samza"
    world.at = {"0": "host-1", "0-0": "host-1", "1": "host-2"}
    result = reconcile(instance, standbys=1)
    assert result.success
    assert kinds(world) == ["place"]
    shown = output_metadata(result, "plan_reconcile")
    assert "no standby on request" in shown["findings"].records[0].data["seen"]


def test_a_group_for_which_samza_s_am_may_end_the_job_is_left_out_and_the_others_go_on(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """What it would take together counts; the run fails in the end with why."""
    world.coordinator = "samza"
    world.at = {"0": "host-1", "0-0": "host-1", "1": "host-2", "1-0": "host-2"}
    world.restarted_by_others("0-0", [world.now_ms - 10_000 * n for n in range(7, 0, -1)])
    text = failed_text(reconcile(instance), "carry_out_reconcile")
    assert "this would be stop 8 of 0-0 in a row" in text
    assert [p for p, _ in world.asked] == ["1-0"]


def test_a_step_that_fails_ends_its_group_and_the_others_go_on(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """The run fails with the coordinator's text; of the group nothing further is asked."""
    world.at["0-0"] = "host-1"
    world.at["1-0"] = "host-2"
    world.ends = [EXPIRED]
    text = failed_text(reconcile(instance, standbys=2), "carry_out_reconcile")
    assert EXPIRED[1] in text
    assert "not begun or left waiting: 0" in text
    assert world.at["0-0"] == "host-1"
    assert world.at["1-0"] != "host-2"
    assert "1-1" in world.at
    assert [p for p, _ in world.asked] == ["0-0", "1-0", "1"]


@pytest.mark.longdagster
def test_a_group_that_always_fails_keeps_no_other_from_being_mended(
    world: SteppedJob, instance: dg.DagsterInstance
) -> None:
    """And is asked last by the next run."""
    real = world.go_on

    def go_on(uuid: str) -> PlacementResponse | None:
        fails = world.requests[uuid].processor_id == "0"
        return world.answer(uuid, *NOT_STARTED) if fails else real(uuid)

    world.go_on = go_on  # type: ignore[method-assign]
    first = reconcile(instance, wanted={"0": "host-3", "1": "host-1"})
    assert "0: place_on_host-3: FAILED" in failed_text(first, "carry_out_reconcile")
    assert world.at["1"] == "host-1"
    world.asked.clear()
    assert not reconcile(instance, wanted={"0": "host-3", "1": "host-2"}).success
    assert world.at["1"] == "host-2"
    assert [p for p, _ in world.asked] == ["1", "0"]


def test_a_group_that_is_refused_is_told_and_the_others_go_on(
    world: SteppedJob, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run fails in the end, with the refusal; a dry run shows it."""
    world.at["0-0"], world.at["1-0"] = "host-1", "host-2"
    real = PlacementClient.plan

    def plan(client: PlacementClient, processor_id: str, destination: str, **more: Any) -> Plan:
        made = real(client, processor_id, destination, **more)
        return replace(made, refusal="never") if processor_id == "0-0" else made

    monkeypatch.setattr(PlacementClient, "plan", plan)
    shown = reconcile(instance, dry_run=True)
    assert "- 0-0: never" in shown.output_for_node("plan_reconcile", "preview")
    text = failed_text(reconcile(instance), "carry_out_reconcile")
    assert text.endswith("0-0: never")
    assert [p for p, _ in world.asked] == ["1-0"]


@pytest.mark.longdagster
@pytest.mark.parametrize(
    "config", [{"only": ["1-0"]}, {"only": ["host-2"]}, {"skip": ["0"]}, {"skip": ["host-1"]}]
)
def test_only_the_groups_that_are_named_are_reconciled(
    world: SteppedJob, instance: dg.DagsterInstance, config: dict[str, list[str]]
) -> None:
    """By any of their processors, or a host that one is on."""
    world.at["0-0"], world.at["1-0"] = "host-1", "host-2"
    assert reconcile(instance, **config).success
    assert [p for p, _ in world.asked] == ["1-0"]
