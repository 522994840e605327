"""The incarnations of one host: commands of its coordinator, reports to it.

Commands, containers' requests (`gate.py`) and the kernel's reports (`watch.py`) arrive on
threads of their own; all share the lock of the `Roster`.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any, Callable, Dict, NamedTuple, Optional

from samza_dagster.agent import incarnation as inc
from samza_dagster.agent import journal, parking, procfs, store_owner
from samza_dagster.agent.gate import Gate
from samza_dagster.agent.grants import HeldLease
from samza_dagster.agent.holdings import Holdings
from samza_dagster.agent.holds import Holds
from samza_dagster.agent.incarnation import HostedIncarnation
from samza_dagster.agent.launching import HostDirectories
from samza_dagster.agent.lease import Grant, Now, read_clocks
from samza_dagster.agent.program import Program, packaged
from samza_dagster.agent.protocol import Launch
from samza_dagster.agent.reservations import ResourceLedger
from samza_dagster.agent.roster import Roster
from samza_dagster.agent.watch import IncarnationWatch

LOG = logging.getLogger("samza_dagster.agent")


class CommandOutcome(NamedTuple):
    """The outcome of a command: carried out, or why not."""

    ok: bool
    why: str = ""


class Supervisor:
    """All incarnations, reservations and the lease of one host."""

    def __init__(
        self,
        directory: Path,
        state_dir: Path,
        host: str,
        ledger: ResourceLedger,
        *,
        url_of: Callable[[str], str],
        clocks: Callable[[], Now] = read_clocks,
        monotonic: Callable[[], float] = time.monotonic,
        parked_s: float = parking.PARKED_S,
        wardens: Optional[Program] = None,
    ) -> None:
        self.directory = directory
        self.host = host
        self.boot_id = procfs.boot_id()
        self.journal = ""
        self.roster = Roster()
        self.lease = HeldLease(directory, self.boot_id, clocks)
        self.holdings = Holdings(directory, self.boot_id, ledger, self.roster)
        self.gate = Gate(self.roster, self.lease, host)
        self.holds = Holds(directory, self.roster, self.holdings, monotonic=monotonic)
        self.watch = IncarnationWatch(
            self.roster,
            self.holdings,
            self.lease,
            boot_id=self.boot_id,
            wardens=packaged() if wardens is None else wardens,
            holds=self.holds,
            monotonic=monotonic,
        )
        self._place = HostDirectories(directory, state_dir, host)
        self._url_of = url_of
        self._monotonic = monotonic
        self._parked_s = parked_s

    # Records of an earlier agent

    def adopt(self) -> None:
        """Adopt what is on disk: the lease, the reservations, every incarnation.

        Raises `RecordError` for a record that isn't understood.
        """
        with self.roster.changed:
            self.journal = journal.identity(self.directory)
            self.lease.adopt()
            self.holdings.adopt()
            loaded = inc.load_all(self.directory, clean=True)
            self.holdings.take_back([each.execution_id for each in loaded if not each.parked])
            for found in loaded:
                if found.parked:
                    self._adopt_parked(found)
                    continue
                self.roster.incarnations[found.execution_id] = found
                if found.stop_asked:
                    self.watch.stop(found)
                self.watch.look(found)
                LOG.info("adopted %s: %s, pid %s", found.execution_id, found.state, found.pid)
            self.holdings.free_what_the_dead_used()
            journal.remember_boot(self.directory)

    # Commands

    def reserve(
        self,
        request_id: str,
        memory_mb: int,
        cores: int,
        launch: Optional[Launch] = None,
        hold: Optional[str] = None,
    ) -> CommandOutcome:
        """Reserve memory and cores, or refuse with what is free.

        With `launch` the container to come is parked, when there is room for one more. With
        `hold`, a container of the cluster's engine, that container's process becomes the warden
        of the incarnation that starts there.
        """
        with self.roster.changed:
            why = self.holdings.ledger.refusal(request_id, memory_mb, cores, hold)
            if why is not None:
                return CommandOutcome(False, why)
            self.holdings.put(self.holdings.ledger.reserve(request_id, memory_mb, cores, hold))
            if hold is not None:
                self.holds.expect(hold)
            if launch is not None:
                self._park(request_id, launch)
            return CommandOutcome(True)

    def release(self, request_id: str) -> CommandOutcome:
        """Give back what no incarnation uses; unknown requests are no error."""
        with self.roster.changed:
            for parked in self.roster.lot.of_request(request_id):
                self.watch.discard(parked, "its reservation was given back")
            self.holdings.put(self.holdings.ledger.release(request_id))
            self.watch.wake()
            return CommandOutcome(True)

    def start(self, request_id: str, launch: Launch) -> CommandOutcome:
        """Start an incarnation once in its life; a second time changes nothing.

        One that is parked by the same launch is given this JobModel, any other is killed first.
        Refused where its store directories are another job's.
        """
        with self.roster.changed:
            if launch.execution_id in self.roster.incarnations:
                return CommandOutcome(True)
            why = self.holdings.ledger.refusal_to_use(request_id)
            if why is None:
                why = store_owner.refusal(self._place.state_dir, launch)
            if why is not None:
                return CommandOutcome(False, why)
            execution_id = launch.execution_id
            lot = self.roster.lot
            parked = lot.claimable(request_id, launch)
            if parked is None and execution_id in lot.parked:
                other = lot.parked[execution_id]
                self.watch.discard(other, "its start came with another launch")
                if not parking.kill_now(other):
                    return CommandOutcome(
                        False, "what was parked as {} lives on".format(execution_id)
                    )
                lot.take(execution_id)
            self.holdings.put(self.holdings.ledger.use(request_id, execution_id))
            if parked is not None:
                self._claim(parked, launch.job_model_json)
            started = self._create(request_id, launch) if parked is None else lot.take(execution_id)
            started.warden_by = None  # its hold gets the whole time again
            self.roster.incarnations[execution_id] = started
            LOG.info("%s starts%s", execution_id, "" if parked is None else ", parked until now")
            if parked is None:
                self.watch.spawn(started)
            self.roster.tell()
            return CommandOutcome(True)

    def stop(self, execution_id: str) -> CommandOutcome:
        """Begin to stop it; the report shows its death. Not ok when there is no record of it."""
        with self.roster.changed:
            parked = self.roster.lot.find(execution_id)
            if parked is not None:  # it was never reported
                self.watch.discard(parked, "it was stopped before its start came")
            found = self.roster.incarnations.get(execution_id)
            if found is None:
                return CommandOutcome(
                    False, "unknown: no record of {} on {}".format(execution_id, self.host)
                )
            if found.is_live:
                if not found.stop_asked:
                    found.stop_asked = True
                    self.watch.stop(found)
                    self.roster.tell()
                found.mark()  # for the next agent; what can't be written must not keep it alive
            return CommandOutcome(True)

    def forget(self, execution_id: str) -> CommandOutcome:
        """Drop the record of a dead incarnation; refuse for a live one."""
        with self.roster.changed:
            found = self.roster.incarnations.get(execution_id)
            if found is not None:
                if found.is_live:
                    return CommandOutcome(False, "{} is {}".format(execution_id, found.state))
                found.close()
                found.forget()
                del self.roster.incarnations[execution_id]
                self.roster.tell()
            return CommandOutcome(True)

    def hold_lease(self, grant: Grant) -> None:
        """Take a grant and pass it to the wardens, unless the current one ends later.

        The warden or the agent kills a container that lived through the current one's end.
        Raises `OSError`, with the current grant unchanged, when it can't be passed on.
        """
        with self.roster.changed:
            held, taken = self.lease.grant, self.lease.take(grant)
            if taken is None:
                return
            if held is not None and not taken.follows(held):
                self.watch.kill_survivors()
            self.roster.changed.notify_all()

    # Reports to the coordinator

    def report(self) -> Dict[str, Any]:
        """Return resources, reservations and every incarnation in the journal."""
        with self.roster.changed:
            return {
                "resources": self.holdings.ledger.resources(),
                "reservations": self.holdings.ledger.to_json(),
                "containers": [i.to_json() for i in self.roster.incarnations.values()],
                "parked": self.roster.lot.to_json(),
            }

    # Starts, and what is parked for them

    def _create(
        self, request_id: str, launch: Launch, parked: Optional[Dict[str, str]] = None
    ) -> HostedIncarnation:
        reservation = self.holdings.ledger.find(request_id)
        return HostedIncarnation.create(
            self._place.incarnation(launch.execution_id),
            launch,
            command=self._place.command(launch),
            environment=self._place.environment(launch, self._url_of(launch.execution_id)),
            grant_file=self.lease.file,
            sequence=self.roster.next_sequence(),
            parked=parked,
            hold=None if reservation is None else reservation.hold,
        )

    def _park(self, request_id: str, launch: Launch) -> None:
        execution_id, lot = launch.execution_id, self.roster.lot
        known = execution_id in self.roster.incarnations or execution_id in lot.parked
        in_use = self.holdings.ledger.refusal_to_use(request_id) is not None
        if known or in_use or lot.of_request(request_id) or not lot.has_room():
            return
        about = {"request_id": request_id, "launch_digest": parking.digest(launch)}
        created = self._create(request_id, launch, about)
        created.stale_at = self._monotonic() + self._parked_s
        lot.parked[execution_id] = created
        self.watch.spawn(created)

    def _claim(self, parked: HostedIncarnation, job_model_json: str) -> None:
        try:
            parked.claim(job_model_json, self.roster.next_sequence())
        except OSError:
            self.watch.discard(parked, "its start can't be recorded")
            raise

    def _adopt_parked(self, found: HostedIncarnation) -> None:
        self.roster.lot.parked[found.execution_id] = found
        found.stale_at = self._monotonic() + self._parked_s
        self.watch.look(found)
        request_id = str(found.spec.get("request_id"))
        if found.is_live and (found.stop_asked or self.holdings.ledger.refusal_to_use(request_id)):
            self.watch.discard(found, "its reservation is gone")
        LOG.info("adopted %s, parked: %s, pid %s", found.execution_id, found.state, found.pid)
