"""The ledger in force and its record, `reservations.json`: what can't be written isn't held."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Collection, Dict, Optional

from samza_dagster.agent import journal
from samza_dagster.agent.files import UnreadableFile, read_record, write_json
from samza_dagster.agent.reservations import ResourceLedger
from samza_dagster.agent.roster import Roster

LOG = logging.getLogger("samza_dagster.agent")


class Holdings:
    """Resources of this host held by requests and incarnations; changed only under the lock."""

    def __init__(
        self, directory: Path, boot_id: str, ledger: ResourceLedger, roster: Roster
    ) -> None:
        self.ledger = ledger
        self._directory = directory
        self._boot_id = boot_id
        self._roster = roster

    def adopt(self) -> None:
        """Adopt the reservations of an earlier agent of this boot.

        Raises `RecordError` for a record that isn't understood.
        """
        listed = self._read()
        # Reservations of another boot were for processes that are gone or never started.
        if listed is not None and listed.get("boot_id", self._boot_id) == self._boot_id:
            self.ledger = self.ledger.with_held(listed["held"])

    def put(self, ledger: ResourceLedger) -> None:
        """Replace the ledger. Raises `OSError`, with the earlier one in force."""
        if ledger != self.ledger:
            write_json(
                self._directory / "reservations.json",
                {"version": 1, "boot_id": self._boot_id, "held": ledger.to_json()},
            )
            self.ledger = ledger
            self._roster.tell()

    def bury(self, execution_id: str) -> None:
        """Free what a dead incarnation used; if that can't be recorded, a later look does it."""
        self._free(self.ledger.bury(execution_id))

    def take_back(self, started: Collection[str]) -> None:
        """Undo the starts that an earlier agent had only begun: the coordinator repeats them."""
        ledger = self.ledger
        for reservation in ledger.held:
            user = reservation.execution_id
            if user is not None and user not in started:
                ledger = ledger.use(reservation.request_id, None)
        self._free(ledger)

    def drop(self, request_id: str) -> None:
        """Give back a reservation after its hold has ended; a failure is handled as by `bury`."""
        self._free(self.ledger.release(request_id))

    def free_what_the_dead_used(self) -> None:
        """Free what dead incarnations and failed starts used; a failure is handled as by `bury`."""
        ledger = self.ledger
        for reservation in self.ledger.held:
            user = reservation.execution_id
            found = None if user is None else self._roster.incarnations.get(user)
            if user is not None and (found is None or not found.is_live):
                ledger = ledger.bury(user)
        self._free(ledger)

    def _free(self, ledger: ResourceLedger) -> None:
        try:
            self.put(ledger)
        except OSError as error:
            LOG.warning("what the dead used can't be freed on record, later again: %s", error)

    def _read(self) -> Optional[Dict[str, Any]]:
        try:
            return read_record(self._directory / "reservations.json")
        except UnreadableFile:
            if not journal.of_an_earlier_boot(self._directory):
                raise
            return None
