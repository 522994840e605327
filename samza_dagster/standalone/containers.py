"""A processor's containers (`work`) as processes.

The supervisor of a host's agent (`agent.supervisor`) runs in this process and starts, watches and
kills them. Each has a warden, which ends it with its lease. This processor renews the lease for as
long as ZooKeeper answers.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from samza_dagster.agent import container_server, hosts_file, procfs
from samza_dagster.agent.ending import HOW_LEASE
from samza_dagster.agent.incarnation import HostedIncarnation
from samza_dagster.agent.lease import Grant, Now
from samza_dagster.agent.protocol import Launch
from samza_dagster.agent.reservations import ResourceLedger
from samza_dagster.agent.supervisor import Supervisor
from samza_dagster.errors import ActionFailed
from samza_dagster.model import JobModel
from samza_dagster.standalone.commands import Expect, StartWork
from samza_dagster.standalone.division import served_model

LaunchOf = Callable[[JobModel, str, str], Launch | None]
"""How a container is launched: of this JobModel the one with this id, under this execution id."""
_EPOCH = 1
_log = logging.getLogger(__name__)


@dataclass
class _Parked:
    """A container with a process that waits for its start, which is reported once."""

    launch: Launch
    there: Callable[[], None]
    is_there: bool = False


@dataclass
class _Started:
    """A container from its start to its stop; its check-in and its own end are reported once."""

    execution_id: str
    at_work: Callable[[], None]
    has_checked_in: bool = False
    has_ended: bool = False


class Containers:
    """The containers of one processor; `directory` has their records, `state_dir` their stores.

    What an earlier process of this directory left running is ended first. `parks`: the process of a
    container that is expected is launched, and waits for its start. `on_failure` is called, from a
    thread of this, when a container ends without a stop; `on_outlived` instead, when its lease was
    over: the processor didn't hear ZooKeeper in time.
    """

    def __init__(
        self,
        directory: Path,
        state_dir: Path,
        location: str,
        *,
        processor_id: str,
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
        self._processor_id = processor_id
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
        self._started: dict[str, _Started] = {}
        self._parked: dict[str, _Parked] = {}
        self._parks = parks
        self._closing = threading.Event()
        self._supervisor.adopt()
        self._server.gate = self._supervisor.gate
        self._threads = [
            threading.Thread(target=target, name=name, daemon=True)
            for target, name in (
                (self._server.serve_forever, "containers-server"),
                (lambda: self._supervisor.watch.run(self._closing.is_set), "containers-watch"),
                (self._see_changes, "containers-changes"),
            )
        ]
        for thread in self._threads:
            thread.start()
        self._give_back(())
        self._end_all()

    def renew(self, asked: Now, lease_s: float) -> None:
        """Let the containers live for `lease_s` from `asked`, the time of the request to ZooKeeper."""
        with contextlib.suppress(OSError):
            self._supervisor.hold_lease(Grant(_EPOCH, lease_s, asked, self._boot_id))

    def expect(self, command: Expect, there: Callable[[str], None]) -> None:
        """See `ContainerControl`: launch processes that wait.

        `there` also hears of containers without one.
        """
        served, roster = self._served(command), self._supervisor.roster
        expected: dict[str, _Parked] = {}
        for each in command.containers:
            own = each.processor_id
            launch = self._launch(served, own)._replace(job_model_json="")
            expected[own] = _Parked(launch, partial(there, own))
        self._give_back({each.launch.execution_id for each in expected.values()})
        for own, each in expected.items():
            if self._parks:
                self._supervisor.reserve(each.launch.execution_id, 0, 0, each.launch)
            if each.launch.execution_id not in roster.lot.parked:
                there(own)
        with roster.changed:
            self._parked = expected
            roster.changed.notify_all()

    def start(self, command: StartWork, at_work: Callable[[str], None]) -> None:
        """See `ContainerControl`. Raises `ActionFailed` when a container can't be started."""
        served = self._served(command)
        for each in command.containers:
            own = each.processor_id
            launch = self._launch(served, own)
            self._supervisor.reserve(launch.execution_id, 0, 0)
            with self._supervisor.roster.changed:
                self._started[own] = _Started(launch.execution_id, partial(at_work, own))
            started = self._supervisor.start(launch.execution_id, launch)
            if not started.ok:
                raise ActionFailed(f"start the container {own}", seen=started.why)

    def _served(self, command: Expect | StartWork) -> JobModel:
        return served_model(command.model, self._config, self._processor_id, command.all)

    def _launch(self, served: JobModel, own: str) -> Launch:
        """Return the launch, by the execution id under which it is parked, if it is the same."""
        parked = self._parked.get(own)
        if parked is not None:
            launch = self._launch_of(served, own, parked.launch.execution_id)
            if launch is not None and launch._replace(job_model_json="") == parked.launch:
                return launch
        launch = self._launch_of(served, own, f"{own}-{uuid.uuid4().hex[:8]}")
        assert launch is not None  # it is in the model
        return launch

    def _give_back(self, expected: Collection[str]) -> None:
        """Give back parked processes that aren't among these executions, also an earlier process's."""
        with self._supervisor.roster.changed:
            parked = set(self._supervisor.roster.lot.parked).difference(expected)
        for execution_id in parked:
            self._supervisor.release(execution_id)

    def stop(self, containers: Collection[str], stopped: Callable[[str], None]) -> None:
        """See `ContainerControl`."""
        with self._supervisor.roster.changed:
            stopping = {each: self._started.pop(each).execution_id for each in containers}
        threading.Thread(target=self._stop_these, args=(stopping, stopped), daemon=True).start()

    def close(self) -> None:
        """End the containers, then the server and the supervisor."""
        with self._supervisor.roster.changed:
            self._started.clear()
        self._give_back(())
        self._end_all()
        self._closing.set()
        self._supervisor.watch.wake()
        with self._supervisor.roster.changed:
            self._supervisor.roster.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def _stop_these(self, stopping: dict[str, str], stopped: Callable[[str], None]) -> None:
        """Stop each container by its execution id."""
        supervisor, roster = self._supervisor, self._supervisor.roster
        for execution_id in stopping.values():
            supervisor.stop(execution_id)
        while stopping:
            with roster.changed:
                live = {each.execution_id for each in roster.live()}
                ended = [own for own, execution_id in stopping.items() if execution_id not in live]
                if not ended:
                    roster.changed.wait()
            for own in ended:
                supervisor.forget(stopping.pop(own))
                stopped(own)

    def _end_all(self) -> None:
        with self._supervisor.roster.changed:
            ids = list(self._supervisor.roster.incarnations)
        self._stop_these({each: each for each in ids}, lambda _: None)

    def _see_changes(self) -> None:
        roster = self._supervisor.roster
        while not self._closing.is_set():
            with roster.changed:
                seen = [
                    (each, found)
                    for each in self._started.values()
                    if (found := roster.incarnations.get(each.execution_id)) is not None
                ]
                there = [
                    it
                    for it in self._parked.values()
                    if (waiting := roster.lot.parked.get(it.launch.execution_id)) is not None
                    and waiting.ready
                    and not it.is_there
                ]
                up = [it for it, found in seen if found.checked_in and not it.has_checked_in]
                dead = [(it, found) for it, found in seen if not (found.is_live or it.has_ended)]
                for each in there:
                    each.is_there = True
                for each in up:
                    each.has_checked_in = True
                for each, _ in dead:
                    each.has_ended = True
                if not there and not up and not dead:
                    roster.changed.wait()
            for each in there:
                each.there()
            for each in up:
                each.at_work()
            for _, found in dead:
                self._tell_of_end(found)

    def _tell_of_end(self, found: HostedIncarnation) -> None:
        end = found.read_end() or {}
        if end.get("how") == HOW_LEASE:
            _log.warning("%s has ended: its lease was over", found.execution_id)
            self._on_outlived()
        else:
            _log.error("%s has ended: %s", found.execution_id, found.why)
            self._on_failure(f"container {found.execution_id} has ended: {found.why}")
