"""When an incarnation may own its tasks, and who runs where. Pure."""

from __future__ import annotations

from typing import Dict, Iterable, Mapping, Optional

from samza_dagster.agent.incarnation import Incarnation, overlaps


def blocked_by(found: Incarnation, others: Iterable[Incarnation]) -> Optional[str]:
    """Which store directory a live incarnation of this host holds; None when all are free.

    Of two that were never released, the one that was started first goes first.
    """
    for other in others:
        if other is found or not other.is_live:
            continue
        if other.released or other.sequence < found.sequence:
            path = overlaps(found.store_directories, other.store_directories)
            if path is not None:
                return "{} is held by {}".format(path, other.execution_id)
    return None


def processor_hosts(
    told: Mapping[str, str], host: str, incarnations: Iterable[Incarnation]
) -> Dict[str, str]:
    """Processor → host: the coordinator's word, and this host's own where it knows better."""
    hosts = dict(told)
    hosts.update({i.processor_id: host for i in incarnations if i.checked_in and i.is_live})
    return hosts
