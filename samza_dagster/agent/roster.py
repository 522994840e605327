"""The incarnations in the journal of this host, under the agent's one lock."""

from __future__ import annotations

import threading
from typing import Dict, List

from samza_dagster.agent.incarnation import HostedIncarnation
from samza_dagster.agent.parking import ParkingLot


class Roster:
    """Every incarnation of the host, parked ones included.

    `changed` is the lock over them and over all that a report tells; it is notified, and
    `revision` grows, whenever a report would differ.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.revision = 0
        self.incarnations: Dict[str, HostedIncarnation] = {}
        self.lot = ParkingLot()

    def live(self) -> List[HostedIncarnation]:
        """Return the incarnations that have a process or may still get one, parked ones included."""
        everyone = [*self.incarnations.values(), *self.lot.parked.values()]
        return [found for found in everyone if found.is_live]

    def next_sequence(self) -> int:
        """Return the place of the next start in the order of starts."""
        return 1 + max((i.sequence for i in self.incarnations.values()), default=0)

    def tell(self) -> None:
        """Announce that a report would differ from now on."""
        self.revision += 1
        self.changed.notify_all()
