"""The incarnations of one host: launched, watched, stopped, adopted again, seen dead.

One thread (`watch`) looks at the kernel; commands and container requests come from other
threads. All share one lock, and `changed` is notified whenever a report would differ.
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Generator, List, NamedTuple, Optional

from samza_dagster.agent import books, boot, grants, parking, procfs, vigil
from samza_dagster.agent import incarnation as inc
from samza_dagster.agent.examination import GIVE_UP_S, WARDEN_MARGIN_S, examine
from samza_dagster.agent.files import Unreadable, read_record, write_json
from samza_dagster.agent.incarnation import Incarnation
from samza_dagster.agent.launching import Place, spawn_warden
from samza_dagster.agent.lease import Grant, Now, longer, read_clocks
from samza_dagster.agent.program import Program, packaged
from samza_dagster.agent.protocol import Launch
from samza_dagster.agent.release import blocked_by, processor_hosts
from samza_dagster.agent.reservations import Ledger
from samza_dagster.agent.wakeup import WakeUp

LOG = logging.getLogger("samza_dagster.agent")


class Outcome(NamedTuple):
    """Whether a command was carried out, and if not, why."""

    ok: bool
    why: str = ""


@contextlib.contextmanager
def _looked_at_again(found: Incarnation) -> Generator[None, None, None]:
    """What the disk or the kernel refuses with one leaves the others alone."""
    try:
        yield
    except OSError as error:
        LOG.warning("%s is looked at again later: %s", found.execution_id, error)


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
        parked_s: float = parking.PARKED_S,
        wardens: Optional[Program] = None,
    ) -> None:
        self.directory = directory
        self._place = Place(directory, state_dir, host)
        self.host = host
        self.boot_id = procfs.boot_id()
        self.books = ""
        self.ledger = ledger
        self.grant: Optional[Grant] = None
        self.locality: Dict[str, str] = {}
        self.incarnations: Dict[str, Incarnation] = {}
        self.lot = parking.ParkingLot()
        self.changed = threading.Condition()
        self.revision = 0
        self._url_of = url_of
        self._clocks = clocks
        self._monotonic = monotonic
        self._parked_s = parked_s
        self._program = packaged() if wardens is None else wardens
        self._wardens: List["subprocess.Popen[bytes]"] = []
        self._wakeup = WakeUp()

    @property
    def grant_file(self) -> Path:
        """Where the wardens read the lease."""
        return self.directory / "grant.json"

    # Records of an earlier agent

    def adopt(self) -> None:
        """Takes up what is on disk: the lease, the reservations, every incarnation.

        Raises `RecordError` for a record that isn't understood.
        """
        with self.changed:
            self.books = books.identity(self.directory)
            grants.make_room(self.grant_file)
            self.grant = grants.read(self.grant_file, self.boot_id)
            listed = self._reservations()
            # Those of another boot were for processes that are gone, or never came.
            if listed is not None and listed.get("boot_id", self.boot_id) == self.boot_id:
                self.ledger = self.ledger.with_held(listed["held"])
            for found in inc.load_all(self.directory):
                if found.parked:
                    self._adopt_parked(found)
                    continue
                self.incarnations[found.execution_id] = found
                if found.stop_asked:
                    self._stop(found)
                self._look(found)
                LOG.info("adopted %s: %s, pid %s", found.execution_id, found.state, found.pid)
            self._free_what_the_dead_used()
            boot.remember(self.directory)

    def _reservations(self) -> Optional[Dict[str, Any]]:
        try:
            return read_record(self.directory / "reservations.json")
        except Unreadable:
            if not boot.of_an_earlier_boot(self.directory):
                raise
            return None

    # Commands

    def reserve(
        self, request_id: str, memory_mb: int, cores: int, launch: Optional[Launch] = None
    ) -> Outcome:
        """Holds memory and cores, or refuses with what is free.

        With `launch` the container to come is parked, when there is room for one more.
        """
        with self.changed:
            why = self.ledger.refusal(request_id, memory_mb, cores)
            if why is not None:
                return Outcome(False, why)
            self._set_ledger(self.ledger.reserve(request_id, memory_mb, cores))
            if launch is not None:
                self._park(request_id, launch)
            return Outcome(True)

    def release(self, request_id: str) -> Outcome:
        """Gives back what no incarnation uses; unknown requests are no error."""
        with self.changed:
            for parked in self.lot.of_request(request_id):
                self._discard(parked, "its reservation was given back")
            self._set_ledger(self.ledger.release(request_id))
            return Outcome(True)

    def start(self, request_id: str, launch: Launch) -> Outcome:
        """Starts an incarnation once in its life; a second time changes nothing.

        One that is parked by the same launch is given this JobModel, any other is killed first.
        """
        with self.changed:
            if launch.execution_id in self.incarnations:
                return Outcome(True)
            why = self.ledger.refusal_to_use(request_id)
            if why is not None:
                return Outcome(False, why)
            execution_id = launch.execution_id
            parked = self.lot.claimable(request_id, launch)
            if parked is None and execution_id in self.lot.parked:
                other = self.lot.parked[execution_id]
                self._discard(other, "its start came with another launch")
                if not parking.kill_now(other):
                    return Outcome(False, "what was parked as {} lives on".format(execution_id))
                self.lot.take(execution_id)
            self._set_ledger(self.ledger.use(request_id, execution_id))
            if parked is not None:
                self._claim(parked, launch.job_model_json)
            started = self._create(launch) if parked is None else self.lot.take(execution_id)
            self.incarnations[execution_id] = started
            if parked is None:
                self._spawn(started)
            self._tell()
            return Outcome(True)

    def stop(self, execution_id: str) -> Outcome:
        """Begins to stop; its death shows in the report. Not ok when there is no record of it."""
        with self.changed:
            parked = self.lot.find(execution_id)
            if parked is not None:  # nobody was ever told that it is there
                self._discard(parked, "it was stopped before its start came")
            found = self.incarnations.get(execution_id)
            if found is None:
                return Outcome(
                    False, "unknown: no record of {} on {}".format(execution_id, self.host)
                )
            if found.is_live:
                if not found.stop_asked:
                    found.stop_asked = True
                    self._stop(found)
                    self._tell()
                found.mark()  # for the next agent; what can't be written must not keep it alive
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
        """Takes a grant and passes it to the wardens, unless the one in hand ends later.

        What lived through the end of the one in hand is killed, by its warden or by us.
        Raises `OSError`, with the one in hand as it was, when it can't be passed on.
        """
        with self.changed:
            chosen = longer(self.grant, grant, self._clocks())
            if chosen is self.grant:
                return
            taken = chosen.after(self.grant)
            grants.write(self.grant_file, taken)  # first: the wardens know no other
            held, self.grant = self.grant, taken
            if held is not None and not taken.follows(held):
                for found in self._live():
                    if found.container is not None and found.kill_at is None:
                        found.kill_at = self._monotonic() + WARDEN_MARGIN_S
                self.wake()
            self.changed.notify_all()

    # What containers ask

    def find(self, execution_id: str) -> Optional[Incarnation]:
        """The incarnation, or what is parked to become it: that one is ready, it asked."""
        with self.changed:
            parked = self.lot.find(execution_id)
            if parked is not None and not parked.ready:
                parked.ready = True
                self._tell()
            return parked or self.incarnations.get(execution_id)

    def waits_for(self, found: Incarnation) -> Optional[str]:
        """Why its JobModel can't be released yet; None when it can."""
        if found.parked:
            return "its start hasn't come"
        if found.container is None:
            return "its process isn't known yet"  # nobody but its warden could end it
        if self.grant is None or not self.grant.is_live(self._clocks()):
            return "the host holds no live lease"
        return blocked_by(found, self.incarnations.values())

    def release_job_model(self, found: Incarnation) -> str:
        """From here on it owns its tasks: recorded before a byte is sent."""
        if not found.released:
            found.mark(released=True)
            self._tell()
        return found.job_model_json()

    def heartbeat(self, execution_id: str) -> bool:
        """Whether this incarnation should go on; the first after the JobModel checks it in."""
        with self.changed:
            found = self.incarnations.get(execution_id)
            if found is None or not found.is_live:
                return False
            if found.released and not found.checked_in:
                try:
                    found.mark(checked_in=True)
                except OSError as error:  # it works, and is checked in by its next heartbeat
                    LOG.warning("%s can't be recorded as checked in: %s", execution_id, error)
                else:
                    self._tell()
            return True

    def processor_hosts(self) -> Dict[str, str]:
        """Processor → host, as `/locality` tells containers."""
        with self.changed:
            return processor_hosts(self.locality, self.host, self.incarnations.values())

    # What the coordinator is told

    def report(self) -> Dict[str, Any]:
        """Resources, reservations and every incarnation on the books."""
        with self.changed:
            return {
                "resources": self.ledger.resources(),
                "reservations": self.ledger.to_json(),
                "containers": [i.to_json() for i in self.incarnations.values()],
                "parked": self.lot.to_json(),
            }

    # The kernel's view

    def watch(self, stopping: Callable[[], bool]) -> None:
        """Looks whenever the kernel says that something ended, or a deadline passes."""
        while not stopping():
            with self.changed:
                for found in self._live():
                    self._look(found)
                for found in self.lot.stale(self._monotonic()):
                    with _looked_at_again(found):
                        self._discard(found, "its start hasn't come")
                self._free_what_the_dead_used()
                self._wardens = [w for w in self._wardens if w.poll() is None]
                live = self._live()
                poller = self._wakeup.prepare(vigil.pidfds(live))
                timeout = vigil.sleep_s(live, self._lease_left_s(), self._monotonic())
            self._wakeup.sleep(poller, timeout)

    def wake(self) -> None:
        """Makes `watch` look now."""
        self._wakeup.call()

    def _live(self) -> List[Incarnation]:
        everyone = [*self.incarnations.values(), *self.lot.parked.values()]
        return [found for found in everyone if found.is_live]

    def _lease_left_s(self) -> Optional[float]:
        return None if self.grant is None else self.grant.remaining_s(self._clocks())

    def _look(self, found: Incarnation) -> None:
        with _looked_at_again(found):
            self._take_finding(found)

    def _take_finding(self, found: Incarnation) -> None:
        left, now = self._lease_left_s(), self._monotonic()
        finding = examine(found, boot_id=self.boot_id, lease_left_s=left, now=now)
        if finding is None:
            return
        found.state = finding.state
        found.stop_failed = finding.stop_failed or found.stop_failed
        if not found.is_live:
            found.why = finding.why
            found.exit_status = finding.exit_status
            found.close()
            LOG.info(
                "%s is %s: status %s, %s",
                *(found.execution_id, found.state, found.exit_status, found.why),
            )
            if found.parked:
                self.lot.take(found.execution_id).forget()
            else:
                self._free(self.ledger.bury(found.execution_id))
        self._tell()
        if found.is_live:
            self._look(found)  # one finding may hide the next

    def _free_what_the_dead_used(self) -> None:
        """And starts that came to nothing. What can't be recorded is freed by a later look."""
        ledger = self.ledger
        for reservation in self.ledger.held:
            user = reservation.execution_id
            found = None if user is None else self.incarnations.get(user)
            if user is not None and (found is None or not found.is_live):
                ledger = ledger.bury(user)
        self._free(ledger)

    def _free(self, ledger: Ledger) -> None:
        try:
            self._set_ledger(ledger)
        except OSError as error:
            LOG.warning("what the dead used can't be freed on record, later again: %s", error)

    def _next_sequence(self) -> int:
        return 1 + max((i.sequence for i in self.incarnations.values()), default=0)

    def _create(self, launch: Launch, parked: Optional[Dict[str, str]] = None) -> Incarnation:
        return Incarnation.create(
            self._place.incarnation(launch.execution_id),
            launch,
            command=self._place.command(launch),
            environment=self._place.environment(launch, self._url_of(launch.execution_id)),
            grant_file=self.grant_file,
            sequence=self._next_sequence(),
            parked=parked,
        )

    def _park(self, request_id: str, launch: Launch) -> None:
        execution_id = launch.execution_id
        known = execution_id in self.incarnations or execution_id in self.lot.parked
        in_use = self.ledger.refusal_to_use(request_id) is not None
        if known or in_use or self.lot.of_request(request_id) or not self.lot.has_room():
            return
        about = {"request_id": request_id, "launch_digest": parking.digest(launch)}
        created = self._create(launch, about)
        created.stale_at = self._monotonic() + self._parked_s
        self.lot.parked[execution_id] = created
        self._spawn(created)

    def _claim(self, parked: Incarnation, job_model_json: str) -> None:
        try:
            parked.claim(job_model_json, self._next_sequence())
        except OSError:
            self._discard(parked, "its start can't be recorded")
            raise

    def _adopt_parked(self, found: Incarnation) -> None:
        self.lot.parked[found.execution_id] = found
        found.stale_at = self._monotonic() + self._parked_s
        self._look(found)
        request_id = str(found.spec.get("request_id"))
        if found.is_live and (found.stop_asked or self.ledger.refusal_to_use(request_id)):
            self._discard(found, "its reservation is gone")
        LOG.info("adopted %s, parked: %s, pid %s", found.execution_id, found.state, found.pid)

    def _discard(self, found: Incarnation, why: str) -> None:
        try:
            parking.discard(found, self._monotonic(), why)
        finally:
            self._tell()
            self.wake()

    def _stop(self, found: Incarnation) -> None:
        if found.state == inc.RUNNING:
            found.state = inc.STOPPING
        found.kill_at = self._monotonic() + found.stop_grace_s + WARDEN_MARGIN_S
        found.give_up_at = found.kill_at + GIVE_UP_S
        found.read_processes()
        if found.warden is not None:
            found.warden.send(15)
        self.wake()

    def _spawn(self, found: Incarnation) -> None:
        try:
            process, told = spawn_warden(found.directory, self._program)
        except OSError as error:
            found.bar("its warden can't be started: {}".format(error))
            self._look(found)
            return
        self._wardens.append(process)
        name = procfs.name_of(process.pid)
        assert name is not None  # our own child, not reaped before `watch` polls it
        found.warden = procfs.ProcessHandle(name)
        self._wakeup.watch_once(told)
        self._tell()
        self.wake()

    def _set_ledger(self, ledger: Ledger) -> None:
        if ledger != self.ledger:
            write_json(
                self.directory / "reservations.json",
                {"version": 1, "boot_id": self.boot_id, "held": ledger.to_json()},
            )
            self.ledger = ledger
            self._tell()

    def _tell(self) -> None:
        self.revision += 1
        self.changed.notify_all()
