"""A queued run whose code server is away: kept in the queue, unless a process of it may have begun."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.errors import DagsterCodeLocationLoadError
from dagster._core.launcher.base import LaunchRunContext
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon
from dagster._grpc.client import DagsterGrpcClient
from placement_runs import placement_job

from samza_dagster.orchestration.deploy.instance import write_instance
from samza_dagster.orchestration.deploy.run_launcher import WatchedRunLauncher
from samza_dagster.orchestration.tags import GROUP

pytestmark = pytest.mark.dagster
QUEUED, FAILURE = dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.FAILURE
ANSWER_S = 1
SERVER = """
import os, sys, time
from concurrent import futures
import grpc

class Answering(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(self.answer)

    def answer(self, request, context):
        if sys.argv[1] == "dies":
            os._exit(1)
        if sys.argv[1] == "stops":
            server.stop(0)
        time.sleep(60)

server = grpc.server(futures.ThreadPoolExecutor(1))
server.add_generic_rpc_handlers((Answering(),))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    """One with the settings that are written for it."""
    home = tmp_path_factory.mktemp("home")
    write_instance(home)
    with dg.DagsterInstance.from_config(str(home)) as made:
        yield made


@contextmanager
def code_server(how: str) -> Generator[int]:
    """The port of one that `dies` or `stops` at a call that has arrived, or `hangs` in it."""
    command = [sys.executable, "-c", SERVER, how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as served:
        assert served.stdout is not None
        try:
            yield int(served.stdout.readline())
        finally:
            served.kill()


def nobody_s_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def dequeued(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, port: int
) -> dg.DagsterRun:
    """A queued run after the queue has tried once to launch it by the code server at `port`."""

    def launch(*_: object) -> None:
        DagsterGrpcClient(port=port, host="127.0.0.1").get_server_id(timeout=ANSWER_S)

    monkeypatch.setattr(dg.DefaultRunLauncher, "launch_run", launch)
    return dequeued_by(instance)


def queued(instance: dg.DagsterInstance, processor: str = "0") -> dg.DagsterRun:
    plan = {"config": {"processor": processor, "destination": "h"}}
    location = RegisteredCodeLocationOrigin("samza")
    run = instance.create_run_for_job(
        placement_job("move_container"),
        run_config={"ops": {"plan_move_container": plan}},
        tags={GROUP: f"demo/1/{processor}"},
        remote_job_origin=RemoteJobOrigin(RemoteRepositoryOrigin(location, "all"), "move"),
    )
    instance.report_dagster_event(dg.DagsterEvent.job_enqueue(run), run.run_id)
    return run


def status(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.DagsterRunStatus:
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    return found.status


def dequeued_by(instance: dg.DagsterInstance) -> dg.DagsterRun:
    run = queued(instance)
    daemon: Any = QueuedRunCoordinatorDaemon(interval_seconds=1)
    with daemon as queue:
        queue._dequeue_run(instance, None, run, instance.get_concurrency_config(), None)
    return run


def test_a_run_whose_code_server_is_away_stays_in_the_queue(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while it is restarted: it failed for good, of a second without a code server."""
    run = dequeued(instance, monkeypatch, nobody_s_port())
    assert status(instance, run) is QUEUED
    told = [entry.message for entry in instance.all_logs(run.run_id)]
    assert any("re-submitting the run into the queue" in text for text in told)


def test_a_run_whose_code_location_does_not_load_stays_in_the_queue(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon looked at it while its code server was away: nothing was asked."""

    def launch(*_: object) -> None:
        raise DagsterCodeLocationLoadError("it is away", load_error_infos=[])

    monkeypatch.setattr(dg.DefaultRunLauncher, "launch_run", launch)
    assert status(instance, dequeued_by(instance)) is QUEUED


@pytest.mark.parametrize("how", ["hangs", "dies", "stops"])
def test_no_second_process_is_launched_for_a_run_whose_first_may_have_begun(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The launch had come to a code server: its process outlives that, or is slow to import.

    One that begins when its run has failed does nothing; one beside another of its run would ask.
    """
    monkeypatch.setattr(WatchedRunLauncher, "doubt_s", 1.0)  # nobody restarts this code server
    with code_server(how) as port:
        run = dequeued(instance, monkeypatch, port)
    assert status(instance, run) is FAILURE
    told = [str(entry.dagster_event) for entry in instance.all_logs(run.run_id)]
    assert any("may have been started" in text for text in told)


def test_the_queue_waits_for_a_code_server_longer_than_its_restart_takes(
    instance: dg.DagsterInstance,
) -> None:
    """A minute at most holds nobody's group for good."""
    queue = instance.get_concurrency_config().run_queue_config
    assert queue is not None
    tries_s = queue.max_user_code_failure_retries * queue.user_code_failure_retry_delay
    assert 50 <= tries_s <= 60


class Daemon:
    """What the queue is given by the daemon's process."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance = instance

    def create_request_context(self) -> None:
        """The workspace, which only the launcher looks at."""


def test_a_slow_launch_keeps_no_other_waiting_and_a_group_has_one_run(
    dagster_home: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither launch ends before the other has begun; who is of a group that is launched waits."""
    both = threading.Barrier(2)
    launched: list[str] = []

    def launch(_: object, context: LaunchRunContext) -> None:
        both.wait(20)
        launched.append(context.dagster_run.run_id)

    monkeypatch.setattr(dg.DefaultRunLauncher, "launch_run", launch)
    with dg.DagsterInstance.from_config(str(dagster_home(tmp_path))) as instance:
        first, second, other = (queued(instance, processor) for processor in ("0", "0", "1"))
        daemon: Any = QueuedRunCoordinatorDaemon(interval_seconds=1)
        with daemon as queue:
            for _ in range(2):
                list(queue.run_iteration(Daemon(instance)))
        assert set(launched) == {first.run_id, other.run_id}
        assert status(instance, second) is QUEUED
