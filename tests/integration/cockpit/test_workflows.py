"""The long workflows over real containers, and the sensor that fails over: judged from outside."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import dagster as dg
import pytest

from samza_dagster.orchestration.tags import GROUP, WHO
from samza_dagster.orchestration.watch.auto_failover import NAME
from samza_dagster.orchestration.watch.failover import FAIL_OVER
from tests.rig.cockpit import PATIENCE_S, Cockpit
from tests.rig.job import alive
from tests.rig.kill_scenarios import free_host
from tests.rig.waiting import until

pytestmark = pytest.mark.realcockpit


def carried_out(cockpit: Cockpit, job: str, **config: Any) -> str:
    """A run of the job from launch to success; its id."""
    run_id = cockpit.runs.launch(job, {"ops": {f"plan_{job}": {"config": config}}})
    assert cockpit.status_of(run_id) == "SUCCESS", cockpit.told(run_id)
    return run_id


def hosts(cockpit: Cockpit) -> dict[str, str]:
    """Processor → host, of those whose process the kernel has."""
    found = cockpit.job.processors().items()
    return {name: p["host"] for name, p in found if p["pid"] and alive(p["pid"])}


def at_rest(cockpit: Cockpit) -> dict[str, str]:
    """Who runs where once nothing is missing and nothing held."""
    cockpit.until_all_run()
    cockpit.until_nothing_is_held()
    until("nothing is missing", lambda: cockpit.judge().missing == 0, seconds=PATIENCE_S)
    return hosts(cockpit)


def test_a_host_is_drained_while_the_coordinator_dies(ready: Cockpit) -> None:
    """kill -9 once the first container is on its way; its successor and the run go on."""
    before = at_rest(ready)
    drained = before["0"]
    run_id = ready.runs.launch(
        "drain_host", {"ops": {"plan_drain_host": {"config": {"host": drained, "at_once": 2}}}}
    )

    def begun() -> bool:
        status = ready.job.status()
        return bool(status and status["actions"])

    until("an action is under way", begun, seconds=PATIENCE_S)
    ready.job.end_coordinators()
    ready.job.start_coordinator()
    assert ready.status_of(run_id) == "SUCCESS", ready.told(run_id)
    after = at_rest(ready)
    assert sorted(after) == sorted(before)
    assert drained not in after.values()


def test_an_active_moves_by_way_of_a_new_standby(ready: Cockpit) -> None:
    """It is on the host that was named, with as many standbys as before."""
    before = at_rest(ready)
    destination = free_host(ready.job, ready.job.processors(), "1")
    carried_out(ready, "move_via_new_standby", processor="1", destination=destination, steady_s=2)
    after = at_rest(ready)
    assert after["1"] == destination
    assert sorted(after) == sorted(before)


def test_a_frozen_agent_gives_one_failover_and_one_run_at_most(ready: Cockpit) -> None:
    """By the sensor's run, or by the coordinator where that was first: the run asks nothing then."""
    before = at_rest(ready)
    host = before["0"]
    (agent,) = ready.sandbox.registry.live(f"agent {host}")
    began_ms = time.time_ns() // 1_000_000
    os.kill(agent.pid, signal.SIGSTOP)
    try:
        until(
            "0 runs on the host of its standby",
            lambda: hosts(ready).get("0") not in (None, host),
            seconds=PATIENCE_S,
        )
    finally:
        os.kill(agent.pid, signal.SIGCONT)
    after = at_rest(ready)
    assert after["0"] == before["0-0"]

    of_sensor = dg.RunsFilter(job_name=FAIL_OVER, tags={WHO: NAME})

    def runs() -> list[dg.RunRecord]:
        return [
            record
            for record in ready.instance.get_run_records(of_sensor)
            if record.create_timestamp.timestamp() * 1000 >= began_ms
            and record.dagster_run.tags[GROUP].endswith("/0")
        ]

    (run,) = ready.until("the run of the sensor", runs)
    ended = ready.status_of(run.dagster_run.run_id)
    assert len(runs()) == 1
    with ready.job.client() as client:
        asked = [r for r in client.history() if r.timestamp >= began_ms and r.processor_id == "0"]
    assert len({response.uuid for response in asked}) == (ended == "SUCCESS")
    starts = ready.started_since(began_ms)
    assert starts.count("0") == 1, "one failover, by it or by the coordinator"
