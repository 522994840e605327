"""Reserve, stop, move from Dagster on real containers: what a run that dies leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.client.responses import is_held
from samza_dagster.model import StatusCode
from samza_dagster.orchestration.requests.step_request import request_uuid
from samza_dagster.placement import texts
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.integration.job import worker
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.integration
PROCESSOR = "1"


def elsewhere(client: PlacementClient) -> dict[str, Any]:
    """Config that moves the processor to another legal host."""
    plan = client.plan(PROCESSOR, "ANY_HOST")
    host = next(v.host for v in plan.hosts if v.legal and v.host != plan.source_host)
    config = {"processor": PROCESSOR, "destination": host, "verify_timeout_s": 60}
    return {"ops": {"plan_move_container": {"config": config}}}


def incarnation(sandbox: Sandbox) -> tuple[object, ...]:
    """Where the container is, as whom, and the kernel's number of it."""
    now = sandbox.status()["processors"][PROCESSOR]
    return now["host"], now["execution_id"], now["pid"]


def test_a_run_that_ends_before_its_commit_leaves_the_container_untouched(
    sandbox: Sandbox, servers: str, client: PlacementClient
) -> None:
    """Reserved on the host, given back with the run: same host, same incarnation, same process."""
    before = incarnation(sandbox)
    result = (
        worker.definitions(servers)
        .get_job_def("move_container")
        .execute_in_process(
            run_config=elsewhere(client), op_selection=["plan_move_container", "reserve"]
        )
    )
    assert result.success
    assert result.output_for_node("reserve").stage == "HELD"
    response = client.wait(request_uuid(result.run_id, "move", 0), timeout_s=30 * PACE)
    assert (response.status_code, response.response_message) == (StatusCode.FAILED, texts.RELEASED)
    assert incarnation(sandbox) == before


@pytest.fixture
def instance(
    servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dg.DagsterInstance]:
    """On disk, for this process and its workers."""
    monkeypatch.setenv("SERVERS", servers)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    with dg.DagsterInstance.from_config(str(tmp_path)) as made:
        yield made


def end_while_it_holds(
    end: signal.Signals,
    config: dict[str, Any],
    instance: dg.DagsterInstance,
    client: PlacementClient,
) -> tuple[dg.DagsterRun, str]:
    """Starts a worker, waits until its destination is held, signals it: its run, the hold."""
    process = subprocess.Popen(
        [sys.executable, "-m", worker.__name__, json.dumps(config)],
        env={**os.environ, "STUCK": "1"},
    )
    try:
        run = until("a run", lambda: next(iter(instance.get_runs()), None), seconds=60)
        hold = request_uuid(run.run_id, "move", 0)
        until("a hold", lambda: (r := client.response(hold)) and is_held(r), seconds=60)
        process.send_signal(end)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    return run, hold


def test_a_worker_that_is_cancelled_gives_its_hold_back(
    sandbox: Sandbox, instance: dg.DagsterInstance, client: PlacementClient
) -> None:
    """An interrupt, as Dagster sends it to a run that is cancelled: same process, no stop."""
    before = incarnation(sandbox)
    _, hold = end_while_it_holds(signal.SIGINT, elsewhere(client), instance, client)
    answer = client.response(hold)
    assert answer is not None
    assert (answer.status_code, answer.response_message) == (StatusCode.FAILED, texts.RELEASED)
    assert incarnation(sandbox) == before


@pytest.mark.realfault
def test_a_worker_killed_while_it_holds_is_gone_on_with(
    sandbox: Sandbox, instance: dg.DagsterInstance, client: PlacementClient
) -> None:
    """kill -9 between hold and commit; a re-execution commits the same hold: one stop, one start."""
    config, before = elsewhere(client), incarnation(sandbox)
    run, hold = end_while_it_holds(signal.SIGKILL, config, instance, client)
    assert incarnation(sandbox) == before
    instance.report_run_failed(run)  # as Dagster's daemon does for a worker that is gone
    with dg.execute_job(
        dg.reconstructable(worker.move_container),
        instance,
        run_config=config,
        reexecution_options=dg.ReexecutionOptions.from_failure(run.run_id, instance),
    ) as result:
        assert result.success
    answer = client.response(hold)
    assert answer is not None
    assert answer.status_code is StatusCode.SUCCEEDED
    assert client.response(request_uuid(run.run_id, "move", 1)) is None
    after = incarnation(sandbox)
    assert after[0] == config["ops"]["plan_move_container"]["config"]["destination"]
    assert after[2] != before[2]
