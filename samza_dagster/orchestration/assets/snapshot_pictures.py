"""Pictures and tables of the snapshot assets: the map of containers, lag over the last snapshots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from samza_dagster.orchestration.map_picture import HostCell, natural, shown_map
from samza_dagster.orchestration.pictures import lag_svg, picture
from samza_dagster.orchestration.tables import table

NOWHERE = "(no host)"
SNAPSHOTS = 100
LAG = "max_standby_lag_records"


def host_cells(rows: Sequence[Mapping[str, Any]]) -> list[HostCell]:
    """Hosts with their containers, from rows of `container_locality`."""
    here: dict[str, list[tuple[str, bool, str]]] = defaultdict(list)
    for row in rows:
        processor, host = str(row["processor_id"]), row.get("host")
        state = "last-seen" if host else "unknown"
        here[str(host or NOWHERE)].append((processor, "-" not in processor, state))
    return [
        HostCell(host, "last-seen", tuple(sorted(here[host], key=lambda c: _order(c[0]))))
        for host in sorted(here, key=natural)
    ]


def map_metadata_of_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The map as a picture, and as a table in which a processor is found by its id."""
    cells = host_cells(rows)
    listed = [
        {
            "host": cell.host,
            "containers": len(cell.containers),
            "actives": ", ".join(p for p, active, _ in cell.containers if active),
            "standbys": ", ".join(p for p, active, _ in cell.containers if not active),
        }
        for cell in cells
    ]
    return {
        "map": dg.MetadataValue.md(shown_map(cells, has_table=True)),
        "hosts": table(listed, ("host", "containers", "actives", "standbys")),
    }


def lag_picture(
    instance: dg.DagsterInstance, asset: str, now: tuple[int, int], limit: int
) -> dict[str, Any]:
    """The largest lag of a standby at each of the last snapshots, with this one (ms, records)."""
    records = instance.fetch_materializations(
        dg.AssetKey(asset.split("/")), limit=SNAPSHOTS
    ).records
    line: list[tuple[int, float]] = [now]
    for record in records:
        event = record.asset_materialization
        lag = event.metadata.get(LAG) if event is not None else None
        at = event.metadata.get("snapshot_time") if event is not None else None
        if lag is not None and at is not None and isinstance(lag.value, int):
            line.append((int(float(str(at.value)) * 1000), float(lag.value)))
    drawn = lag_svg({"furthest standby": sorted(line)}, limit=limit)
    return {"lag_over_time": dg.MetadataValue.md(picture(drawn, "lag over time"))}


def _order(processor_id: str) -> tuple[int, str]:
    head = processor_id.partition("-")[0]
    return (int(head) if head.isdigit() else 0, processor_id)
