"""What a tick of `auto_failover` keeps while it goes on: its cursor counts only once it has ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import dagster as dg

from samza_dagster.orchestration.history.events import KEY

PREFIX = "samza_dagster/auto_failover"


class Keeper(Protocol):
    """One text a job, there at once for whichever process ticks next."""

    def kept(self, job: str) -> str:
        """What was kept last; empty: nothing."""
        ...

    def keep(self, job: str, text: str) -> None:
        """In place of what was kept."""
        ...


@dataclass(frozen=True)
class InstanceKeeper:
    """`Keeper` in the storage in which Dagster's daemons keep their own cursors.

    `key` is the job's `placement_history`: two components may watch jobs of one name on two
    clusters.
    """

    instance: dg.DagsterInstance
    key: dg.AssetKey = KEY

    def kept(self, job: str) -> str:
        """What was kept last; empty: nothing."""
        name = self._name(job)
        return self.instance.daemon_cursor_storage.get_cursor_values({name}).get(name, "")

    def keep(self, job: str, text: str) -> None:
        """In place of what was kept."""
        self.instance.daemon_cursor_storage.set_cursor_values({self._name(job): text})

    def _name(self, job: str) -> str:
        return f"{PREFIX}/{self.key.to_user_string()}/{job}"
