"""The hosts of containers by three sources: the coordinator stream, YARN, the Application Master.

A container writes its host to the stream some seconds after its start, and nothing records its end
there. YARN knows the nodes that run, and the Application Master knows the processor in each of its YARN
containers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from samza_dagster.errors import Unreachable
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.show.tables import table

if TYPE_CHECKING:
    from samza_dagster.metadata.resource_manager import Cluster

MOST_ROWS = 200
_COLUMNS = {
    "processor_id": "Samza's processor id.",
    "stream": "The host that it reported last, by the coordinator stream.",
    "application_master": "The host of its YARN container, by the Application Master's page /am.",
    "yarn_container": "The id of that container.",
    "difference": "What doesn't agree.",
}


def yarn_metadata(samza: SamzaClientResource, stream: Mapping[str, str | None]) -> dict[str, Any]:
    """Return YARN's report on the containers of `stream` (processor → host); empty without an address.

    If YARN doesn't answer, the report says so, and everything else is as usual.
    """
    addresses = samza.connection().resource_managers
    if not addresses:
        return {}
    from samza_dagster.metadata.resource_manager import resource_manager

    yarn = resource_manager(addresses)
    try:
        cluster = yarn.cluster(samza.job_name, samza.job_id)
    except Unreachable as error:
        return {"yarn": f"its ResourceManager can't be asked: {error.seen}"}
    application, master = cluster.application, None
    said = str(application or f"it knows no application {samza.job_name}_{samza.job_id}")
    if application is not None:
        try:
            master = yarn.containers(application)
        except Unreachable as error:
            said += f"; its Application Master can't be asked: {error.seen}"
    rows = sorted(reconciled(stream, cluster, master), key=lambda row: not row["difference"])
    return {
        "yarn": said,
        "yarn_differences": sum(bool(row["difference"]) for row in rows),
        "by_yarn": table(rows[:MOST_ROWS], tuple(_COLUMNS), _COLUMNS),
    }


def reconciled(
    stream: Mapping[str, str | None],
    cluster: Cluster,
    master: Mapping[str, tuple[str, str]] | None,
) -> list[dict[str, str]]:
    """A row for each processor that anybody names, each difference in words. Pure.

    `master`: processor → YARN container and host; None: it wasn't asked.
    """
    from samza_dagster.metadata.resource_manager import RUNNING

    rows: list[dict[str, str]] = []
    runs: Mapping[str, tuple[str, str]] = {} if master is None else master
    for processor in sorted({*stream, *runs}):
        container, runs_on = runs.get(processor, ("", ""))
        reported = stream.get(processor) or ""
        wrong: list[str] = []
        if master is not None and processor not in master:
            wrong.append("its Application Master runs no container of it")
        elif runs_on and runs_on != reported:
            wrong.append(f"it runs on {runs_on}, and reported {reported or 'no host'} last")
        host = runs_on or reported
        node = cluster.nodes.get(host)
        if host and node is None:
            wrong.append(f"YARN has no node {host}")
        elif node is not None and node.state != RUNNING:
            wrong.append(f"node {host} is {node.state}")
        told = (processor, reported, runs_on, container, "; ".join(wrong))
        rows.append(dict(zip(_COLUMNS, told, strict=True)))
    return rows
