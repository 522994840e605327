"""A worker whose code server was killed, on a real Dagster."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator

import dagster as dg
import pytest
import yaml

from samza_dagster.errors import InvalidInput
from samza_dagster.orchestration.deploy.instance import FILE, instance_settings
from samza_dagster.sandbox.dagster_stack import DagsterStack
from tests.rig.cockpit import PATIENCE_S
from tests.rig.job import alive, kill
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.realcockpit

DEFINITIONS = """
import time
import dagster as dg

@dg.op
def work(context: dg.OpExecutionContext) -> None:
    context.log.info("at work")
    time.sleep(600)

@dg.job(executor_def=dg.in_process_executor)
def long_job():
    work()

defs = dg.Definitions(jobs=[long_job])
"""


_NOT_BACK = ("UNAVAILABLE", "PipelineNotFoundError")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DagsterStack]:
    """The instance's own settings, but its runs are looked after every two seconds."""
    directory = tmp_path_factory.mktemp("orphans")
    home = directory / "home"
    home.mkdir()
    settings = instance_settings()
    settings["run_monitoring"]["poll_interval_seconds"] = 2
    (home / FILE).write_text(yaml.safe_dump(settings))
    (directory / "long.py").write_text(DEFINITIONS)
    made = DagsterStack(home, directory / "long.py")
    made.start(timeout_s=PATIENCE_S)
    yield made
    made.stop(timeout_s=10 * PACE)


@pytest.fixture
def instance(stack: DagsterStack) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.from_config(str(stack.home)) as instance:
        yield instance


def at_work(stack: DagsterStack, instance: dg.DagsterInstance) -> tuple[str, int]:
    """A run whose op has begun, and its worker."""

    def launch() -> str | None:
        try:
            return stack.runs.launch("long_job")
        except InvalidInput as error:  # the web server comes back to a new code server by and by
            if not any(word in str(error) for word in _NOT_BACK):
                raise
            return None

    run_id = until("a run is launched", launch, seconds=PATIENCE_S)

    def pid() -> int | None:
        said = [entry.message or entry.user_message for entry in instance.all_logs(run_id)]
        pids = [int(found[1]) for text in said if (found := re.search(r"\(pid: (\d+)\)", text))]
        return pids[0] if pids and "at work" in said else None

    return run_id, until("a worker is at work", pid, seconds=PATIENCE_S)


def status(instance: dg.DagsterInstance, run_id: str) -> str:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run.status.value


def answers(server: dict[str, object]) -> bool:
    """Whether a code server is where a run says that its own was."""
    address, kind = server.get("socket"), socket.AF_UNIX
    if address is None:
        address, kind = ("127.0.0.1", server["port"]), socket.AF_INET
    with socket.socket(kind) as caller:
        return caller.connect_ex(address) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("successor", ["is up", "isn't up yet"])
def test_a_worker_that_outlived_its_code_server_can_be_terminated(
    stack: DagsterStack, instance: dg.DagsterInstance, successor: str
) -> None:
    """It isn't taken for dead, and the UI's terminate reaches it."""
    run_id, worker = at_work(stack, instance)
    run = instance.get_run_by_id(run_id)
    assert run is not None
    server = json.loads(run.tags[".dagster/grpc_info"])
    kill(stack.pids["code-server"])
    if successor == "is up":
        stack.restart("code-server")
        until("another code server answers", lambda: answers(server), seconds=PATIENCE_S)
    assert alive(worker)
    assert status(instance, run_id) == "STARTED"
    stack.runs.terminate(run_id)
    until("it is cancelled", lambda: status(instance, run_id) == "CANCELED", seconds=PATIENCE_S)
    until("its worker has ended", lambda: not alive(worker), seconds=PATIENCE_S)
