"""The incarnations of one host: launched, watched, stopped, adopted again, seen dead.

One thread (`watch`) looks at the kernel; commands and container requests come from other
threads. All share one lock, and `changed` is notified whenever a report would differ.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from samza_dagster.agent import incarnation as inc
from samza_dagster.agent import procfs, warden
from samza_dagster.agent.ending import HOW_NOT_STARTED, HOW_WARDEN_GONE
from samza_dagster.agent.files import read_json, write_json
from samza_dagster.agent.incarnation import Incarnation
from samza_dagster.agent.lease import Grant, Now, longer, read_clocks
from samza_dagster.agent.protocol import Launch
from samza_dagster.agent.reservations import Ledger

LOG = logging.getLogger("samza_dagster.agent")

# The warden is the first killer; the agent acts when it is this much too late.
_WARDEN_MARGIN_S = 2.0
# Past SIGKILL, a process that still lives hangs in the kernel: say so.
_GIVE_UP_S = 10.0
_LONGEST_SLEEP_S = 5.0
_WITHOUT_PIDFD_S = 0.2


class Outcome(NamedTuple):
    """Whether a command was carried out, and if not, why."""

    ok: bool
    why: str = ""


class Supervisor:
    """All incarnations, reservations and the lease of one host."""

    def __init__(
        self,
        directory: Path,
        state_dir: Path,
        host: str,
        ledger: Ledger,
        *,
        url_of: Callable[[str], str],
        clocks: Callable[[], Now] = read_clocks,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory
        self.state_dir = state_dir
        self.host = host
        self.boot_id = procfs.boot_id()
        self.ledger = ledger
        self.grant: Optional[Grant] = None
        self.locality: Dict[str, str] = {}
        self.incarnations: Dict[str, Incarnation] = {}
        self.changed = threading.Condition()
        self.revision = 0
        self._url_of = url_of
        self._clocks = clocks
        self._monotonic = monotonic
        self._wardens: List["subprocess.Popen[bytes]"] = []
        self._ready: Dict[int, str] = {}
        self._wake, self._wake_write = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._wake_write, False)

    @property
    def grant_file(self) -> Path:
        """Where the wardens read the lease."""
        return self.directory / "grant.json"

    # Records of an earlier agent

    def adopt(self) -> None:
        """Takes up what is on disk: the lease, the reservations, every incarnation."""
        with self.changed:
            self.grant = Grant.from_json(read_json(self.grant_file), self.boot_id)
            listed = read_json(self.directory / "reservations.json")
            if listed is not None:
                self.ledger = self.ledger.with_held(listed["held"])
            root = self.directory / "incarnations"
            root.mkdir(parents=True, exist_ok=True)
            for directory in sorted(root.iterdir()):
                found = Incarnation.load(directory)
                if found is None:  # its record was never finished, so nothing was started
                    shutil.rmtree(str(directory), ignore_errors=True)
                    continue
                self.incarnations[found.execution_id] = found
                if found.stop_asked:
                    self._stop(found)
                self._look(found)
                LOG.info("adopted %s: %s, pid %s", found.execution_id, found.state, found.pid)
            for reservation in self.ledger.held:
                used_by = reservation.execution_id
                if used_by is not None and used_by not in self.incarnations:
                    self._set_ledger(self.ledger.bury(used_by))

    # Commands

    def reserve(self, request_id: str, memory_mb: int, cores: int) -> Outcome:
        """Holds memory and cores, or refuses with what is free."""
        with self.changed:
            why = self.ledger.refusal(request_id, memory_mb, cores)
            if why is not None:
                return Outcome(False, why)
            self._set_ledger(self.ledger.reserve(request_id, memory_mb, cores))
            return Outcome(True)

    def release(self, request_id: str) -> Outcome:
        """Gives back what no incarnation uses; unknown requests are no error."""
        with self.changed:
            self._set_ledger(self.ledger.release(request_id))
            return Outcome(True)

    def start(self, request_id: str, launch: Launch) -> Outcome:
        """Starts an incarnation once in its life; a second time changes nothing."""
        with self.changed:
            if launch.execution_id in self.incarnations:
                return Outcome(True)
            held = self.ledger.find(request_id)
            if held is None:
                return Outcome(False, "no resource is held for request {}".format(request_id))
            if held.execution_id is not None:
                return Outcome(
                    False,
                    "the resource of request {} is used by {}".format(
                        request_id, held.execution_id
                    ),
                )
            created = Incarnation.create(
                self.directory / "incarnations" / launch.execution_id,
                launch,
                command=tuple(self._fill(part, launch) for part in launch.command),
                environment=self._environment(launch),
                grant_file=self.grant_file,
                sequence=1 + max((i.sequence for i in self.incarnations.values()), default=0),
            )
            self.incarnations[created.execution_id] = created
            self._set_ledger(self.ledger.use(request_id, created.execution_id))
            self._spawn(created)
            return Outcome(True)

    def stop(self, execution_id: str) -> Outcome:
        """Begins to stop; its death shows in the report. Not ok when there is no record of it."""
        with self.changed:
            found = self.incarnations.get(execution_id)
            if found is None:
                return Outcome(
                    False, "unknown: no record of {} on {}".format(execution_id, self.host)
                )
            if found.is_live and not found.stop_asked:
                found.stop_asked = True
                found.mark()
                self._stop(found)
                self._tell()
            return Outcome(True)

    def forget(self, execution_id: str) -> Outcome:
        """Drops the record of a dead incarnation; refuses for a live one."""
        with self.changed:
            found = self.incarnations.get(execution_id)
            if found is not None:
                if found.is_live:
                    return Outcome(False, "{} is {}".format(execution_id, found.state))
                found.close()
                found.forget()
                del self.incarnations[execution_id]
                self._tell()
            return Outcome(True)

    def hold_lease(self, grant: Grant) -> None:
        """Takes a grant and passes it to the wardens, unless the one in hand ends later."""
        with self.changed:
            chosen = longer(self.grant, grant, self._clocks())
            if chosen is not self.grant:
                self.grant = chosen
                write_json(self.grant_file, chosen.to_json())
                self.changed.notify_all()

    # What containers ask

    def waits_for(self, found: Incarnation) -> Optional[str]:
        """Why its JobModel can't be released yet; None when it can."""
        if self.grant is None or not self.grant.is_live(self._clocks()):
            return "the host holds no live lease"
        for other in self.incarnations.values():
            if other is found or not other.is_live:
                continue
            # Of two that were never released, the one that was started first goes first.
            if other.released or other.sequence < found.sequence:
                path = overlaps(found, other)
                if path is not None:
                    return "{} is held by {}".format(path, other.execution_id)
        return None

    def release_job_model(self, found: Incarnation) -> str:
        """From here on it owns its tasks: recorded before a byte is sent."""
        if not found.released:
            found.released = True
            found.mark()
            self._tell()
        return found.job_model_json()

    def heartbeat(self, execution_id: str) -> bool:
        """Whether this incarnation should go on; the first after the JobModel checks it in."""
        with self.changed:
            found = self.incarnations.get(execution_id)
            if found is None or not found.is_live:
                return False
            if found.released and not found.checked_in:
                found.checked_in = True
                found.mark()
                self._tell()
            return True

    # What the coordinator is told

    def report(self) -> Dict[str, Any]:
        """Resources, reservations and every incarnation on the books."""
        with self.changed:
            return {
                "resources": {
                    "memory_mb": self.ledger.memory_mb,
                    "cores": self.ledger.cores,
                    "free_memory_mb": self.ledger.free_memory_mb,
                    "free_cores": self.ledger.free_cores,
                },
                "reservations": self.ledger.to_json(),
                "containers": [i.to_json() for i in self.incarnations.values()],
            }

    # The kernel's view

    def watch(self, stopping: Callable[[], bool]) -> None:
        """Looks whenever the kernel says that something ended, or a deadline passes."""
        while not stopping():
            with self.changed:
                for found in list(self.incarnations.values()):
                    if found.is_live:
                        self._look(found)
                self._wardens = [w for w in self._wardens if w.poll() is None]
                poller = select.poll()
                for descriptor in self._descriptors():
                    poller.register(descriptor, select.POLLIN | select.POLLHUP)
                timeout = self._sleep_s()
            woken = poller.poll(max(1, int(timeout * 1000)))
            with self.changed:
                for descriptor, _ in woken:
                    if descriptor in self._ready:
                        del self._ready[descriptor]
                        os.close(descriptor)
            try:
                while os.read(self._wake, 512):
                    pass
            except BlockingIOError:
                pass

    def wake(self) -> None:
        """Makes `watch` look now."""
        with contextlib.suppress(BlockingIOError):  # full: it has reason enough to wake
            os.write(self._wake_write, b"x")

    def _descriptors(self) -> List[int]:
        watched = [self._wake, *self._ready]
        for found in self.incarnations.values():
            if found.is_live:
                handles = [h for h in (found.warden, found.container) if h is not None]
                # A dead one stays readable, and would wake us without end.
                watched += [h.pidfd for h in handles if h.pidfd is not None and not h.is_dead()]
        return watched

    def _sleep_s(self) -> float:
        sleep = _LONGEST_SLEEP_S
        now = self._monotonic()
        for found in self.incarnations.values():
            if not found.is_live:
                continue
            for deadline in (found.kill_at, found.give_up_at, found.bury_by):
                if deadline is not None and deadline > now:
                    sleep = min(sleep, deadline - now)
            handles = [h for h in (found.warden, found.container) if h is not None]
            if not handles or any(h.pidfd is None and not h.is_dead() for h in handles):
                sleep = min(sleep, _WITHOUT_PIDFD_S)
            if self.grant is not None:
                left = self.grant.remaining_s(self._clocks()) + _WARDEN_MARGIN_S
                sleep = min(sleep, max(left, _WITHOUT_PIDFD_S))
        return sleep

    def _look(self, found: Incarnation) -> None:
        """Compares one live incarnation with the kernel and its record."""
        if found.warden is not None and found.warden.name.boot_id != self.boot_id:
            self._finish(found, found.read_end() or {"why": "the host was started anew"})
            return
        if not found.read_processes():
            self._look_at_launch(found)
            return
        assert found.warden is not None  # read together
        assert found.container is not None
        if found.state == inc.LAUNCHING:
            found.state = inc.STOPPING if found.stop_asked else inc.RUNNING
            self._tell()
        # The order matters: an end that is written before a dead warden is seen isn't missed.
        warden_dead = found.warden.is_dead()
        end = found.read_end()
        if found.container.is_dead() and end is not None:
            self._finish(found, end)
        elif warden_dead:
            self._take_over(found)
        elif found.container.is_dead():
            self._hurry_warden(found)
        else:
            self._second_killer(found)

    def _look_at_launch(self, found: Incarnation) -> None:
        end = found.read_end()
        if end is not None:
            self._fail(found, str(end.get("why", "")))
        elif found.warden is not None:
            if found.warden.is_dead():
                # A container forked but not written down was killed with its parent.
                self._fail(found, "its warden ended before it had started the container")
        elif found.bar("the agent ended before it had started a warden"):
            self._fail(found, "the agent ended before it had started a warden")

    def _take_over(self, found: Incarnation) -> None:
        """The warden is gone without having written an end: kill what is left, then write it."""
        assert found.warden is not None
        assert found.container is not None
        container = found.container.name
        if procfs.group_of(container, found.warden.name.pid) or not found.container.is_dead():
            procfs.kill_group(container, found.warden.name.pid)
            now = self._monotonic()
            if found.kill_at is None or found.kill_at <= now:
                found.kill_at = now + _WITHOUT_PIDFD_S  # look again soon
            return
        found.write_end(HOW_WARDEN_GONE, "its warden was killed")
        self._finish(found, found.read_end() or {})

    def _hurry_warden(self, found: Incarnation) -> None:
        """The container is dead; its warden has a moment to write the end."""
        assert found.warden is not None
        now = self._monotonic()
        if found.bury_by is None:
            found.bury_by = now + _WARDEN_MARGIN_S
        elif found.bury_by <= now:
            LOG.warning("%s: its warden hangs, killing it", found.execution_id)
            found.warden.send(9)

    def _second_killer(self, found: Incarnation) -> None:
        assert found.warden is not None
        assert found.container is not None
        now = self._monotonic()
        remaining = -1.0 if self.grant is None else self.grant.remaining_s(self._clocks())
        overdue = remaining <= -_WARDEN_MARGIN_S
        if overdue or (found.kill_at is not None and found.kill_at <= now):
            LOG.warning(
                "%s: killing its group: %s",
                found.execution_id,
                "the lease has ended" if overdue else "its warden didn't within the grace",
            )
            procfs.kill_group(found.container.name, found.warden.name.pid)
            found.kill_at = now + _WITHOUT_PIDFD_S
        if (
            found.give_up_at is not None
            and found.give_up_at <= now
            and found.stop_asked
            and not found.stop_failed
        ):
            found.stop_failed = "pid {} lives on {:.0f} s after SIGKILL".format(
                found.pid, _GIVE_UP_S
            )
            self._tell()

    def _stop(self, found: Incarnation) -> None:
        if found.state == inc.RUNNING:
            found.state = inc.STOPPING
        found.kill_at = self._monotonic() + found.stop_grace_s + _WARDEN_MARGIN_S
        found.give_up_at = found.kill_at + _GIVE_UP_S
        found.read_processes()
        if found.warden is not None:
            found.warden.send(15)
        self.wake()

    def _finish(self, found: Incarnation, end: Dict[str, Any]) -> None:
        found.state = inc.DEAD
        status = end.get("status")
        found.exit_status = status if isinstance(status, int) else None
        found.why = str(end.get("how", "")) if not end.get("why") else str(end["why"])
        LOG.info("%s is dead: status %s, %s", found.execution_id, status, found.why)
        self._ended(found)

    def _fail(self, found: Incarnation, why: str) -> None:
        if found.read_end() is None:
            found.write_end(HOW_NOT_STARTED, why)
        found.state = inc.FAILED
        found.why = why
        LOG.info("%s was not started: %s", found.execution_id, why)
        self._ended(found)

    def _ended(self, found: Incarnation) -> None:
        found.close()
        self._set_ledger(self.ledger.bury(found.execution_id))
        self._tell()

    # Launch

    def _fill(self, text: str, launch: Launch) -> str:
        work = self.directory / "incarnations" / launch.execution_id / "work"
        for word, value in (
            ("{agent_dir}", str(self.directory)),
            ("{state_dir}", str(self.state_dir)),
            ("{work_dir}", str(work)),
            ("{host}", self.host),
        ):
            text = text.replace(word, value)
        return text

    def _environment(self, launch: Launch) -> Dict[str, str]:
        given = {key: self._fill(value, launch) for key, value in launch.environment.items()}
        # Of the agent's own environment only what finds programs and speaks a language.
        base = {
            k: os.environ[k] for k in ("PATH", "LANG", "LC_ALL", "TZ", "HOME") if k in os.environ
        }
        base.update(given)
        base["SAMZA_COORDINATOR_URL"] = self._url_of(launch.execution_id)
        base["LOGGED_STORE_BASE_DIR"] = str(self.state_dir)
        return base

    def _spawn(self, found: Incarnation) -> None:
        told, tell = os.pipe()
        try:
            with (found.directory / "warden.log").open("ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-I", warden.__file__, str(found.directory), str(tell)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    pass_fds=(tell,),
                    start_new_session=True,
                )
        except OSError as error:
            os.close(told)
            self._fail(found, "its warden can't be started: {}".format(error))
            return
        finally:
            os.close(tell)
        self._wardens.append(process)
        name = procfs.name_of(process.pid)
        assert name is not None  # our own child, not reaped before `watch` polls it
        found.warden = procfs.ProcessHandle(name)
        self._ready[told] = found.execution_id
        self._tell()
        self.wake()

    def _set_ledger(self, ledger: Ledger) -> None:
        if ledger != self.ledger:
            self.ledger = ledger
            write_json(
                self.directory / "reservations.json", {"version": 1, "held": ledger.to_json()}
            )
            self._tell()

    def _tell(self) -> None:
        self.revision += 1
        self.changed.notify_all()


def overlaps(one: Incarnation, other: Incarnation) -> Optional[str]:
    """A store directory that both would hold."""
    return inc.overlaps(one.store_directories, other.store_directories)


def processor_hosts(supervisor: Supervisor) -> Dict[str, str]:
    """Processor → host: the coordinator's word, and this host's own where it knows better."""
    hosts = dict(supervisor.locality)
    live: List[Tuple[str, str]] = [
        (i.processor_id, supervisor.host)
        for i in supervisor.incarnations.values()
        if i.checked_in and i.is_live
    ]
    hosts.update(live)
    return hosts
