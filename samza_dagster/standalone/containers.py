"""A processor's work as real containers: one of its active tasks, one of its standby tasks.

Samza's container can't hold both. They are started, watched and killed by what a host's agent has
for that (`agent.supervisor`), in this process: each has a warden, which ends it when the lease is over
that this processor renews for as long as ZooKeeper answers.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from samza_dagster.agent import container_server, hosts_file, procfs
from samza_dagster.agent.ending import HOW_LEASE
from samza_dagster.agent.lease import Grant, Now
from samza_dagster.agent.protocol import Launch
from samza_dagster.agent.reservations import ResourceLedger
from samza_dagster.agent.supervisor import Supervisor
from samza_dagster.errors import ActionFailed
from samza_dagster.model import ContainerModel, JobModel, TaskMode

LaunchOf = Callable[[JobModel, str, str], Launch | None]
"""How a container is launched: of this JobModel the one with this id, under this execution id."""
_EPOCH = 1
_ACTIVES_FIRST_S, _AT_WORK_S = 30.0, 3.0
"""So long standbys wait at most for active tasks that start too to check in, and then until these are at work."""
_log = logging.getLogger(__name__)


def local_model(model: JobModel, config: Mapping[str, str]) -> JobModel:
    """What containers are served: each processor's active tasks and its standby tasks apart.

    It has all processors, as Samza counts the changelogs' partitions by the tasks that it finds.
    """
    containers: dict[str, ContainerModel] = {}
    for processor_id, container in model.containers.items():
        for mode in TaskMode:
            tasks = {n: task for n, task in container.tasks.items() if task.task_mode is mode}
            each = container_id(processor_id, mode)
            if tasks:
                containers[each] = ContainerModel(processor_id=each, tasks=tasks)
    return JobModel(
        config=dict(config),
        containers=containers,
        max_change_log_stream_partitions=model.max_change_log_stream_partitions,
    )


def container_id(processor_id: str, mode: TaskMode) -> str:
    """A container's id of a processor. Samza takes it for a standby by a `-` in it, so the processor's has none there."""
    name = processor_id.replace("_", "__").replace("-", "_.")
    return name if mode is TaskMode.ACTIVE else f"{name}-0"


class Containers:
    """The containers of one processor; `directory` has their records, `state_dir` their stores.

    What an earlier process of this directory left running is ended first. `parks`: a process
    is launched while the one before it ends. `on_failure` is called,
    from a thread of this, when a container ends that nobody told to; `on_outlived` instead, when its lease
    was over: ZooKeeper wasn't heard of in time, be it that its processor had no time to listen.
    """

    def __init__(
        self,
        directory: Path,
        state_dir: Path,
        location: str,
        *,
        config: Mapping[str, str],
        launch_of: LaunchOf,
        on_failure: Callable[[str], None],
        on_outlived: Callable[[], None],
        parks: bool = True,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o700)
        state_dir.mkdir(parents=True, exist_ok=True)
        hosts_file.write(directory / "hosts", location)
        self._config = config
        self._launch_of = launch_of
        self._on_failure = on_failure
        self._on_outlived = on_outlived
        self._server = container_server.bind(None)
        port: int = self._server.server_address[1]
        self._supervisor = Supervisor(
            directory,
            state_dir,
            location,
            ResourceLedger(0, 0),
            url_of=lambda execution_id: f"http://127.0.0.1:{port}/c/{execution_id}/",
        )
        self._boot_id = procfs.boot_id()
        self._running: set[str] = set()
        self._modes: dict[str, TaskMode] = {}
        self._parks = parks
        self._ahead: Launch | None = None
        self._waiting: Launch | None = None
        self._ordered = threading.Lock()
        self._closing = threading.Event()
        self._supervisor.adopt()
        self._server.gate = self._supervisor.gate
        self._threads = [
            threading.Thread(target=target, name=name, daemon=True)
            for target, name in (
                (self._server.serve_forever, "containers-server"),
                (lambda: self._supervisor.watch.run(self._closing.is_set), "containers-watch"),
                (self._see_ends, "containers-ends"),
            )
        ]
        for thread in self._threads:
            thread.start()
        self._give_back()
        self._end_all()

    def renew(self, asked: Now, lease_s: float) -> None:
        """Lets the containers live for so long from `asked`, when ZooKeeper was asked."""
        with contextlib.suppress(OSError):
            self._supervisor.hold_lease(Grant(_EPOCH, lease_s, asked, self._boot_id))

    def expect(self, work: ContainerModel, model: JobModel) -> None:
        """Launches a process that waits for this start, which may never come: its JVM is warm then.

        The container of the active tasks alone: others that start beside it would slow it down.
        """
        self._give_back()
        own = container_id(work.processor_id, TaskMode.ACTIVE)
        served = local_model(model, self._config)
        if self._parks and own in served.containers:
            self._ahead = self._launch(served, own)._replace(job_model_json="")
            self._supervisor.reserve(self._ahead.execution_id, 0, 0, self._ahead)

    def start(self, work: ContainerModel, model: JobModel, modes: frozenset[TaskMode]) -> None:
        """Starts those of these modes, and doesn't wait. Raises `ActionFailed` when one can't be."""
        served = local_model(model, self._config)
        launches = {
            mode: self._launch(served, container_id(work.processor_id, mode))
            for mode in modes & {task.task_mode for task in work.tasks.values()}
        }
        active = launches.pop(TaskMode.ACTIVE, None)
        if active is not None:
            self._start(active, TaskMode.ACTIVE)
        self._give_back()
        self._waiting = launches.get(TaskMode.STANDBY)
        if self._waiting is not None:
            threading.Thread(
                target=self._start_standbys, args=(self._waiting, active), daemon=True
            ).start()

    def _start(self, launch: Launch, mode: TaskMode) -> None:
        self._supervisor.reserve(launch.execution_id, 0, 0)
        with self._supervisor.roster.changed:
            self._running.add(launch.execution_id)
            self._modes[launch.execution_id] = mode
        started = self._supervisor.start(launch.execution_id, launch)
        if not started.ok:
            raise ActionFailed(f"start the container {launch.processor_id}", seen=started.why)

    def _start_standbys(self, launch: Launch, active: Launch | None) -> None:
        """Once the active tasks, if they start too, are at work: a JVM that starts beside theirs slows them down."""
        roster = self._supervisor.roster
        with roster.changed:
            if active is not None:
                roster.changed.wait_for(
                    lambda: self._waiting is not launch or self._is_up(active), _ACTIVES_FIRST_S
                )
        if active is not None:
            self._closing.wait(_AT_WORK_S)
        with self._ordered:
            if self._waiting is not launch:
                return
            self._waiting = None
            try:
                self._start(launch, TaskMode.STANDBY)
            except ActionFailed as failed:
                self._on_failure(str(failed))

    def _is_up(self, launch: Launch) -> bool:
        found = self._supervisor.roster.incarnations.get(launch.execution_id)
        return found is None or found.checked_in or not found.is_live

    def _launch(self, served: JobModel, own: str) -> Launch:
        """By the execution id under which it is expected, if it is to be the same."""
        ahead = self._ahead
        if ahead is not None and ahead.processor_id == own:
            launch = self._launch_of(served, own, ahead.execution_id)
            if launch is not None and launch._replace(job_model_json="") == ahead:
                return launch
        launch = self._launch_of(served, own, f"{own}-{uuid.uuid4().hex[:8]}")
        assert launch is not None  # it is in the model
        return launch

    def _give_back(self) -> None:
        """Nothing is expected any more, nor is what an earlier process of this directory expected."""
        with self._supervisor.roster.changed:
            parked = list(self._supervisor.roster.lot.parked)
        for execution_id in parked:
            self._supervisor.release(execution_id)
        self._ahead = None

    def stop(self, modes: frozenset[TaskMode], stopped: Callable[[], None]) -> None:
        """Tells those of these modes to end, and doesn't wait; `stopped` is called when they have."""
        if TaskMode.STANDBY in modes:
            self._wait_no_more()
        with self._supervisor.roster.changed:
            ids = [each for each, mode in self._modes.items() if mode in modes]
            self._running.difference_update(ids)
        threading.Thread(target=self._stop_these, args=(ids, stopped), daemon=True).start()

    def close(self) -> None:
        """Ends what still runs, then what serves it."""
        self._wait_no_more()
        with self._supervisor.roster.changed:
            self._running.clear()
        self._give_back()
        self._end_all()
        self._closing.set()
        self._supervisor.watch.wake()
        with self._supervisor.roster.changed:
            self._supervisor.roster.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def _wait_no_more(self) -> None:
        """Standbys that are to start later don't start."""
        with self._ordered:
            self._waiting = None
        with self._supervisor.roster.changed:
            self._supervisor.roster.changed.notify_all()

    def _stop_these(self, ids: list[str], stopped: Callable[[], None]) -> None:
        supervisor = self._supervisor
        for execution_id in ids:
            supervisor.stop(execution_id)
        roster = supervisor.roster
        with roster.changed:
            while any(each.execution_id in ids for each in roster.live()):
                roster.changed.wait()
        for execution_id in ids:
            supervisor.forget(execution_id)
            self._modes.pop(execution_id, None)
        stopped()

    def _end_all(self) -> None:
        with self._supervisor.roster.changed:
            ids = list(self._supervisor.roster.incarnations)
        ended = threading.Event()
        self._stop_these(ids, ended.set)
        ended.wait()

    def _see_ends(self) -> None:
        roster = self._supervisor.roster
        while not self._closing.is_set():
            with roster.changed:
                dead = [
                    found
                    for each in self._running
                    if (found := roster.incarnations.get(each)) is not None and not found.is_live
                ]
                self._running -= {found.execution_id for found in dead}
                if not dead:
                    roster.changed.wait()
            for found in dead:
                end = found.read_end() or {}
                if end.get("how") == HOW_LEASE:
                    _log.warning("%s has ended: its lease was over", found.execution_id)
                    self._on_outlived()
                    continue
                _log.error("%s has ended: %s", found.execution_id, found.why)
                self._on_failure(f"container {found.execution_id} has ended: {found.why}")
