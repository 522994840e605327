"""What a refusal shows: of each host the rule that decides, what was seen, the smallest change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from samza_dagster.errors import Refused, SamzaDagsterError
from samza_dagster.model.capabilities import capabilities
from samza_dagster.model.naming import LAST_SEEN
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.orchestration.plans.move import find_processor, standbys_of
from samza_dagster.orchestration.show.tables import table_within

if TYPE_CHECKING:
    from samza_dagster.client import HostVerdict, PlacementClient

COLUMNS = ("container", "host", "legal", "rule", "seen", "fix")
MOST_BYTES = 200_000
"""Of the table: an event has the map of hosts beside it, and fewer than 300 kB in all."""
Row = Mapping[str, object]
Explain = Callable[[], Sequence[Row]]


def rows_of(container: str, hosts: Iterable[HostVerdict]) -> list[Row]:
    """The rules' word on each host as a place of one container."""
    return [
        {
            "container": container,
            "host": verdict.host,
            "legal": verdict.legal,
            "rule": verdict.rule,
            "seen": verdict.seen,
            "fix": verdict.fix or "-",
        }
        for verdict in hosts
    ]


def hosts_for(client: PlacementClient, processor: str) -> list[Row]:
    """Of each host, whether a container may be there."""
    return rows_of(processor, client.plan(processor, LAST_SEEN).hosts)


def new_standby(active: str) -> str:
    """How a standby is named that has no id yet."""
    return f"one more standby of {active}"


def hosts_for_a_new_standby(client: PlacementClient, active: str) -> list[Row]:
    """Of each host, whether one more standby of an active may be there."""
    ruled = client.plan_own(RequestKind.START_STANDBY, active)
    return rows_of(new_standby(active), ruled.hosts)


def hosts_for_a_failover(client: PlacementClient, active: str) -> list[Row]:
    """Of each host, whether a failover can go there; without a standby, why it can't and what would help."""
    view = client.view()
    found = find_processor(view, active)
    own = capabilities(view.coordinator).has_own_requests
    if not own or view.is_standby(active) or standbys_of(view, found):
        return rows_of(active, client.plan_own(RequestKind.FAIL_OVER, active).hosts)
    return [
        {
            **row,
            "container": active,
            "legal": False,
            "rule": "a failover goes to the host of a standby",
            "seen": f"no standby of {active} is there; one more: {row['rule']}, {row['seen']}",
            "fix": f"spin_up_standby of {active} to {row['host']}" if row["legal"] else row["fix"],
        }
        for row in hosts_for_a_new_standby(client, active)
    ]


def shown(error: SamzaDagsterError, explain: Explain | None) -> dict[str, dg.MetadataValue]:
    """The table of a refusal; nothing of another error, and where nothing can be said of hosts."""
    if not isinstance(error, Refused):
        return {}
    rows = error.hosts
    if not rows and explain is not None:
        try:
            rows = explain()
        except SamzaDagsterError:  # of a container that isn't there, say: the refusal tells that
            rows = ()
    return {"hosts_table": table_within(rows, COLUMNS, MOST_BYTES)} if rows else {}
