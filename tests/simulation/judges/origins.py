"""In whose journal an incarnation stands, as the laws see it: who else can't tell its end."""

from __future__ import annotations

from collections.abc import Mapping

from samza_dagster.placement import events as ev
from samza_dagster.placement.state import Host, Incarnation, Orphan


def are_its(journal: str, incarnation: Incarnation) -> bool:
    """Whether it was started on this journal, or before any was known: then its silence says something."""
    return incarnation.journal in ("", journal)


def knows(event: ev.HostRegistered, incarnation: Incarnation) -> bool:
    """Whether who registers can tell what became of it."""
    listed = incarnation.execution_id in event.execution_ids
    return listed or are_its(event.journal, incarnation)


def as_known(event: ev.HostRegistered, incarnation: Incarnation) -> Incarnation:
    """As the state has it from now on: in this journal and of this boot, if it knows of it."""
    if not knows(event, incarnation):
        return incarnation
    return incarnation.evolve(journal=event.journal, boot_id=event.boot_id)


def _is_elsewhere(host: Host | None, left: Incarnation) -> bool:
    """Whether its machine has lost its host's name: neither boot nor journal is those."""
    if host is None or "" in (left.boot_id, host.boot_id) or left.boot_id == host.boot_id:
        return False
    return not are_its(host.journal, left)


def is_left_behind(hosts: Mapping[str, Host], orphan: Orphan) -> bool:
    """Whether its group may start on the machine that has its host's name now.

    What a host said last counts until it has registered with this leader.
    """
    known = hosts.get(orphan.incarnation.host)
    if known is None or known.boot_id == "":
        return orphan.ended is not None and orphan.elsewhere
    return orphan.ended is not None and _is_elsewhere(known, orphan.incarnation)
