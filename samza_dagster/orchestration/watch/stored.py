"""What Dagster's instance keeps for `auto_failover`: its events, and a memory for a tick that is killed.

A sensor's cursor counts only once its tick has ended.
"""

from __future__ import annotations

from dataclasses import dataclass

import dagster as dg

from samza_dagster.orchestration.history.names import KEY
from samza_dagster.orchestration.watch.reported import is_for_every_one

LOOKED_BACK = 300
PAGE = 1_000
MOST_READ = 5_000
"""Observations of one asset; `placement_responses` writes 200 in a tick."""
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Log:
    """Observations of `placement_history`, newest first, as they were stored.

    `read_to` is where the newest stands, to read back to the next time. `cut`: there are more
    between what was asked for and these.
    """

    events: tuple[dg.AssetObservation, ...] = ()
    read_to: int = 0
    cut: bool = False


@dataclass(frozen=True)
class InstanceEvents:
    """What a Dagster instance keeps of former ticks.

    `key` is the job's `placement_history`. Of what stands under the plain key, which may be that
    of a job of the same name on another cluster, only acknowledgements that count for every
    one are read: the command line writes them without a prefix.
    """

    instance: dg.DagsterInstance
    key: dg.AssetKey = KEY

    def read(self, back_to: int = UNKNOWN) -> Log:
        """Back to a former `read_to` and somewhat further; 0: to the first; `UNKNOWN`: the newest.

        `LOOKED_BACK` of each asset at least, `MOST_READ` at most.
        """
        found, cut = self._newest(self.key, back_to)
        read_to = max((at for at, _ in found), default=0)
        if self.key != KEY:
            plain, plain_cut = self._newest(KEY, back_to)
            read_to = max(read_to, max((at for at, _ in plain), default=0))
            cut = cut or plain_cut
            found += [(at, event) for at, event in plain if is_for_every_one(event)]
            found.sort(key=lambda one: one[0], reverse=True)
        return Log(tuple(event for _, event in found), read_to, cut)

    def _newest(
        self, key: dg.AssetKey, back_to: int
    ) -> tuple[list[tuple[int, dg.AssetObservation]], bool]:
        """With where each stands, and whether there are more that were asked for."""
        found: list[tuple[int, dg.AssetObservation]] = []
        limit, cursor = LOOKED_BACK, None
        while True:
            page = self.instance.fetch_observations(key, limit=limit, cursor=cursor)
            records, cursor = page.records, page.cursor
            events = ((record.storage_id, record.asset_observation) for record in records)
            found += [(at, event) for at, event in events if event is not None]
            reached = not page.has_more or not records or records[-1].storage_id <= back_to
            if back_to == UNKNOWN or reached:
                return found, False
            limit = min(PAGE, MOST_READ - len(found))
            if limit <= 0:
                return found, True


PREFIX = "samza_dagster/auto_failover"


@dataclass(frozen=True)
class InstanceKeeper:
    """One text a job, there at once for whichever process ticks next.

    It is in the storage in which Dagster's daemons keep their own cursors.
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
