"""Which host the destination STANDBY stands for, and when there is none. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from samza_dagster.client.legal_hosts import Placing
from samza_dagster.client.verdicts import HostVerdict, peers_of
from samza_dagster.client.views import JobView, ProcessorView
from samza_dagster.errors import Refused
from samza_dagster.model import TaskMode
from samza_dagster.model.naming import STANDBY
from samza_dagster.placement.explain import explain, group_with
from samza_dagster.placement.state import JobState, Phase


def standby_host(
    view: JobView, processor: ProcessorView, verdicts: Sequence[HostVerdict]
) -> tuple[str | None, tuple[str, ...]]:
    """The host that STANDBY stands for, None when the coordinator chooses among several.

    Beside it what the coordinator says of places that it refuses, where it decides later.

    Raises `Refused` where the coordinator has no such destination, and for a standby, an
    active without one, or one whose standby could go nowhere.
    """
    pid = processor.processor_id
    standbys = [p for p in peers_of(view, processor) if p.mode is TaskMode.STANDBY and p.host]
    seen = "standbys " + (", ".join(f"{p.processor_id} on {p.host}" for p in standbys) or "none")
    if not view.capabilities.has_standby_destination:
        verdict = next((v for v in verdicts if standbys and v.host == standbys[0].host), None)
        raise Refused(
            f"place {pid} --to STANDBY: this coordinator has no such destination",
            seen=seen,
            fix=verdict.fix if verdict is not None else "name a host or ANY_HOST",
        )
    if processor.mode is TaskMode.STANDBY:
        raise Refused(
            f"place {pid} --to STANDBY: for an active", seen=f"{pid} is a standby", fix="a host"
        )
    if not standbys:
        raise Refused(
            f"place {pid} --to STANDBY: an active with a standby",
            seen=seen,
            fix=f"control-standby start {pid}, or name a host or ANY_HOST",
        )
    if view.capabilities.places_tasks:  # the two swap their places, where each has been legal
        return standbys[0].host if len(standbys) == 1 else None, ()
    places, told = _places(view, processor, tuple(p.host or "" for p in standbys))
    # As the coordinator reserves it, before anything stops: the fault domain that it leaves is legal.
    placing = Placing(view, only=view.group_of(pid))
    free = {
        host
        for standby in standbys
        for host in set(view.hosts) - placing.forbidden(standby.processor_id) - {standby.host}
    }
    if not free:
        raise Refused(
            f"place {pid} --to STANDBY: the standby needs a new host first",
            seen="; ".join(f"{v.host}: {v.seen}" for v in verdicts),
            fix=f"start an agent on another host, or fail-over {pid}",
        )
    return places[0] if len(places) == 1 else None, told


def _places(
    view: JobView, processor: ProcessorView, seen: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The standbys' places that the coordinator allows, and its words where it decides later.

    Raises `Refused`, in its words, where it would refuse the request now. One that waits (its
    group is busy, or its container down) is judged when its turn comes.
    """
    pid = processor.processor_id
    if view.state is None:
        return seen, ()
    said = explain(view.state, pid, STANDBY)
    legal = tuple(candidate.host for candidate in said.candidates if candidate.legal)
    if legal:
        return legal, ()
    if _waits(view.state, pid):
        return (), (f"as it is now, it would be refused: {said}",)
    raise Refused(
        f"place {pid} --to STANDBY: " + ", ".join(dict.fromkeys(c.rule for c in said.candidates)),
        seen="; ".join(candidate.seen for candidate in said.candidates),
        fix="; or ".join(candidate.change for candidate in said.candidates),
    )


def _waits(state: JobState, processor_id: str) -> bool:
    """Whether a request about the processor would be queued."""
    group = group_with(state, processor_id)
    if group is None:
        return False
    free = group.action is None and group.failover is None and not group.queue
    return not free or group.processors[processor_id].phase is not Phase.RUNNING
