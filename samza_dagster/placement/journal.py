"""Decides whether an agent's journal is authoritative for an incarnation.

The records in an agent's directory are its journal. The journal's id lasts as long as the
directory. The absence of an incarnation proves its death only in the journal of its start: an
agent with another journal, on another machine or in another directory, knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from samza_dagster.placement.state import Host, Incarnation


def is_authoritative(hosts: Mapping[str, Host], incarnation: Incarnation) -> bool:
    """Return whether the agent of the incarnation's host has the journal of its start.

    The agent's reports then count, and an incarnation that the journal lacks doesn't exist. An
    incarnation that began before this leader knew of the journal has "", and belongs to it.
    """
    known = hosts.get(incarnation.host)
    return known is None or incarnation.journal in ("", known.journal)


def is_on_replaced_machine(hosts: Mapping[str, Host], incarnation: Incarnation) -> bool:
    """Return whether the incarnation can't be on the machine that has its host's name now.

    That machine was booted since, or is another one: journal and boot id both differ.
    """
    known = hosts.get(incarnation.host)
    return (
        known is not None
        and "" not in (incarnation.boot_id, known.boot_id)
        and incarnation.boot_id != known.boot_id
        and not is_authoritative(hosts, incarnation)
    )


def entered(hosts: Mapping[str, Host], incarnation: Incarnation) -> Incarnation:
    """Return the incarnation as an entry of its host's present journal."""
    known = hosts.get(incarnation.host)
    if known is None or (incarnation.journal, incarnation.boot_id) == (
        known.journal,
        known.boot_id,
    ):
        return incarnation
    return incarnation.evolve(journal=known.journal, boot_id=known.boot_id)
