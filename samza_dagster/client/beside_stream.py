"""Add to the `JobView` of a job under Samza's own AM what isn't in its coordinator stream. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from samza_dagster.client.views import (
    ALIVE_STATE,
    CLOSED_STATE,
    LOST_STATE,
    UNKNOWN_STATE,
    ActionView,
    HostView,
    JobView,
)
from samza_dagster.metadata.resource_manager import RUNNING, Cluster, YarnNode
from samza_dagster.model.naming import LAST_SEEN


def with_named_hosts(view: JobView, names: Iterable[str]) -> JobView:
    """Return `view` with the hosts that a person named added to the cluster's."""
    named = {name: HostView(host=name, state=UNKNOWN_STATE) for name in names}
    return replace(view, hosts={**named, **view.hosts})


def with_cluster(view: JobView, cluster: Cluster) -> JobView:
    """`view` (of the stream) with what YARN's ResourceManager knows: nodes, and whether the job runs."""
    nodes = {name: _node_view(node) for name, node in cluster.nodes.items()}
    application = cluster.application
    ended = application is not None and application.has_ended
    known = replace(
        view,
        hosts={**view.hosts, **nodes},
        actions=tuple(replace(a, trouble=_held_up(a, view, cluster)) for a in view.actions),
        queued=tuple(replace(a, trouble=_unheard(a, view, cluster)) for a in view.queued),
        application=application,
        unreadable=(*view.unreadable, *(f"{cluster.url}: {odd}" for odd in cluster.odd)),
    )
    return with_dead(known, f"YARN's ResourceManager: {application}" if ended else None)


def with_dead(view: JobView, dead: str | None) -> JobView:
    """Return `view` of a job whose processes have all ended, by that source; None: no source says so."""
    view = replace(view, dead=dead)
    if dead is None or view.deployment_id is None:
        return view
    why = view.why_over(view.deployment_id)
    over = tuple(replace(a, trouble=why) for a in (*view.actions, *view.queued))
    return replace(view, actions=(), queued=(), over=(*view.over, *over))


def _held_up(action: ActionView, view: JobView, cluster: Cluster) -> str:
    """Return a notice that the node is gone on which a container is to start; else empty.

    Samza's AM finds that out by itself only when its attempts to start it there end.
    """
    processor = view.processors.get(action.processor_id)
    here = processor.host if processor is not None else None
    host = here if action.destination == LAST_SEEN else action.destination
    node = cluster.nodes.get(host or "")
    if node is None or not node.is_gone:
        return ""
    return (
        f"{host} is {node.state} for YARN's ResourceManager; once {action.processor_id} is stopped,"
        " Samza's AM tries for about three minutes to start it there"
        " (yarn.client.nodemanager-connect.max-wait-ms), then where it was before. Sooner: bring"
        f" the NodeManager of {host} back; another request for {action.processor_id} only waits"
        " behind this one"
    )


def _unheard(action: ActionView, view: JobView, cluster: Cluster) -> str:
    """Return a notice that the node is gone on which a waiting request's container was last; else empty.

    Samza's AM takes nothing up for a container that doesn't run. One that it had launched on a node in
    the moment in which that died stays pending for good: no answer of the node comes any more.
    """
    processor = view.processors.get(action.processor_id)
    node = cluster.nodes.get((processor.host if processor is not None else None) or "")
    if node is None or not node.is_gone:
        return ""
    pid = action.processor_id
    return (
        f"{pid} was on {node.host}, which is {node.state} for YARN's ResourceManager: until Samza's AM has"
        f" it running elsewhere, which takes a minute or two, nothing that is asked of {pid} is taken"
        f" up. Where it stays so, the AM waits for {node.host} for ever: end the AM's container, and"
        " YARN starts another one, which places it anew"
    )


def _node_view(node: YarnNode) -> HostView:
    open_state = ALIVE_STATE if node.state == RUNNING else CLOSED_STATE
    return HostView(
        host=node.host,
        state=LOST_STATE if node.is_gone else open_state,
        memory_mb=node.memory_mb,
        free_memory_mb=node.free_memory_mb,
        cores=node.cores,
        free_cores=node.free_cores,
        yarn_state=node.state,
    )
