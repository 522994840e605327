"""The lease that this host holds: the grant in hand, which its wardens read from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Optional

from samza_dagster.agent import grants
from samza_dagster.agent.lease import Grant, Now, longer


class HeldLease:
    """Changed only under the agent's lock; `grant` None is a lease that the agent doesn't know."""

    def __init__(self, directory: Path, boot_id: str, clocks: Callable[[], Now]) -> None:
        self.file = directory / "grant.json"
        self.grant: Optional[Grant] = None
        self._boot_id = boot_id
        self._clocks = clocks

    def adopt(self) -> None:
        """Takes up the grant of an earlier agent, and room for those to come."""
        grants.make_room(self.file)
        self.grant = grants.read(self.file, self._boot_id)

    def take(self, offered: Grant) -> Optional[Grant]:
        """The grant as it follows the one in hand; None when that one ends later, and stays.

        Raises `OSError`, with the one in hand as it was, when it can't be passed to the wardens.
        """
        chosen = longer(self.grant, offered, self._clocks())
        if chosen is self.grant:
            return None
        taken = chosen.after(self.grant)
        grants.write(self.file, taken)  # first: the wardens know no other
        self.grant = taken
        return taken

    def is_live(self) -> bool:
        """Containers may live."""
        return self.grant is not None and self.grant.is_live(self._clocks())

    def left_s(self) -> Optional[float]:
        """Seconds until it ends, 0 or less when it has; None when it isn't known."""
        return None if self.grant is None else self.grant.remaining_s(self._clocks())
