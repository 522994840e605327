"""The kernel's view of a host: which processes are started, stopped, killed and seen dead."""

from __future__ import annotations

import contextlib
import logging
import subprocess
from typing import Callable, Dict, Generator, List

from samza_dagster.agent import incarnation as inc
from samza_dagster.agent import parking, procfs
from samza_dagster.agent.examination import GIVE_UP_S, WARDEN_MARGIN_S, examine
from samza_dagster.agent.grants import HeldLease
from samza_dagster.agent.holdings import Holdings
from samza_dagster.agent.holds import Holds
from samza_dagster.agent.incarnation import HostedIncarnation
from samza_dagster.agent.launching import spawn_warden
from samza_dagster.agent.logs import about
from samza_dagster.agent.program import Program
from samza_dagster.agent.roster import Roster
from samza_dagster.agent.wakeup import WakeUp, pidfds, sleep_s

LOG = logging.getLogger("samza_dagster.agent")


@contextlib.contextmanager
def _looked_at_again(found: HostedIncarnation) -> Generator[None, None, None]:
    """Keep a refusal by the disk or the kernel for one incarnation from the others."""
    try:
        yield
    except OSError as error:
        LOG.warning("%s is looked at again later: %s", found.execution_id, error)


class IncarnationWatch:
    """The watch of a host's incarnations.

    `run` has a thread and takes the lock; the rest needs it held.
    """

    def __init__(
        self,
        roster: Roster,
        holdings: Holdings,
        lease: HeldLease,
        *,
        boot_id: str,
        wardens: Program,
        holds: Holds,
        monotonic: Callable[[], float],
    ) -> None:
        self._roster = roster
        self._holdings = holdings
        self._lease = lease
        self._boot_id = boot_id
        self._program = wardens
        self._holds = holds
        holds.on_change = self.wake
        self._monotonic = monotonic
        # Ended incarnations, by whether a stop was requested; since this process began.
        self.ended: Dict[bool, int] = {}
        self._wardens: List["subprocess.Popen[bytes]"] = []
        self._wakeup = WakeUp()

    def run(self, stopping: Callable[[], bool]) -> None:
        """Look whenever the kernel reports an end, or a deadline passes."""
        while not stopping():
            with self._roster.changed:
                looked_at = self._monotonic()
                for found in self._roster.live():
                    self.look(found)
                for found in self._roster.lot.stale(self._monotonic()):
                    with _looked_at_again(found):
                        self.discard(found, "its start hasn't come")
                self._holdings.free_what_the_dead_used()
                self._holds.look()
                self._wardens = [w for w in self._wardens if w.poll() is None]
                live = self._roster.live()
                poller = self._wakeup.prepare(pidfds(live))
                timeout = sleep_s(
                    live, self._lease.left_s(), looked_at=looked_at, now=self._monotonic()
                )
            self._wakeup.sleep(poller, timeout)

    def wake(self) -> None:
        """Make `run` look now; from any thread or signal handler, with or without the lock."""
        self._wakeup.call()

    def look(self, found: HostedIncarnation) -> None:
        """Compare a live incarnation with the kernel and its record; act on the difference."""
        ids = {"execution": found.execution_id, "processor": found.processor_id}
        with about(**ids), _looked_at_again(found):
            self._hand_over(found)
            self._take_finding(found)

    def spawn(self, found: HostedIncarnation) -> None:
        """Start its warden unless its hold becomes that; one that can't be started is its end."""
        if found.hold is not None:
            self.look(found)
            self._roster.tell()
            self.wake()
            return
        try:
            process, exited = spawn_warden(found.directory, self._program)
        except OSError as error:
            found.bar("its warden can't be started: {}".format(error))
            self.look(found)
            return
        self._wardens.append(process)
        name = procfs.name_of(process.pid)
        assert name is not None  # our own child, not reaped before `run` polls it
        found.warden = procfs.ProcessHandle(name)
        self._wakeup.watch_once(exited)
        self._roster.tell()
        self.wake()

    def stop(self, found: HostedIncarnation) -> None:
        """Make its warden end it, and kill it when that is late."""
        if found.state == inc.RUNNING:
            found.state = inc.STOPPING
        found.kill_at = self._monotonic() + found.stop_grace_s + WARDEN_MARGIN_S
        found.give_up_at = found.kill_at + GIVE_UP_S
        found.read_processes()
        if found.warden is not None:
            found.warden.send(15)
        self.wake()

    def discard(self, found: HostedIncarnation, why: str) -> None:
        """Kill a parked one; raises as `parking.discard` does."""
        try:
            parking.discard(found, self._monotonic(), why)
        finally:
            self._roster.tell()
            self.wake()

    def kill_survivors(self) -> None:
        """Kill what lives after the lease's end, unless its warden does so first."""
        for found in self._roster.live():
            if found.container is not None and found.kill_at is None:
                found.kill_at = self._monotonic() + WARDEN_MARGIN_S
        self.wake()

    def _hand_over(self, found: HostedIncarnation) -> None:
        """Make its hold its warden once the hold waits here, unless it has or had one."""
        if found.hold is None or found.warden is not None or found.stop_asked:
            return
        if not found.read_processes() and found.read_end() is None:
            found.warden = self._holds.hand_over(found.hold, found.directory)

    def _take_finding(self, found: HostedIncarnation) -> None:
        left, now = self._lease.left_s(), self._monotonic()
        finding = examine(found, boot_id=self._boot_id, lease_left_s=left, now=now)
        if finding is None:
            return
        found.state = finding.state
        found.stop_failed = finding.stop_failed or found.stop_failed
        if not found.is_live:
            found.why = finding.why
            found.exit_status = finding.exit_status
            found.close()
            asked = found.stop_asked
            self.ended[asked] = self.ended.get(asked, 0) + 1
            LOG.info(
                "%s is %s: status %s, %s",
                *(found.execution_id, found.state, found.exit_status, found.why),
            )
            if found.parked:
                self._roster.lot.take(found.execution_id).forget()
            else:
                self._holdings.bury(found.execution_id)
        self._roster.tell()
        if found.is_live:
            self.look(found)  # one finding may hide the next
