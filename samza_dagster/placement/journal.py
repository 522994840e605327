"""Whose word counts: an agent's journal, and what it can tell of an incarnation.

The records in an agent's directory are its journal, which has an id that lasts as long as the
directory. That they lack an incarnation proves it dead only if it was started on them: an
agent with another journal, on another machine or in another directory, knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from samza_dagster.placement.state import Host, Incarnation


def know(hosts: Mapping[str, Host], incarnation: Incarnation) -> bool:
    """Whether its host's agent goes by the journal that it was started on.

    What they lack of it then doesn't exist, and what that agent says of it counts. One that was
    begun before this leader knew of the journal there has "", and was begun on that one.
    """
    known = hosts.get(incarnation.host)
    return known is None or incarnation.journal in ("", known.journal)


def machine_is_another(hosts: Mapping[str, Host], incarnation: Incarnation) -> bool:
    """Whether nothing of it can be on the machine that bears its host's name now.

    That was started since, or is another one: its journal and its boot are others.
    """
    known = hosts.get(incarnation.host)
    return (
        known is not None
        and "" not in (incarnation.boot_id, known.boot_id)
        and incarnation.boot_id != known.boot_id
        and not know(hosts, incarnation)
    )


def entered(hosts: Mapping[str, Host], incarnation: Incarnation) -> Incarnation:
    """The incarnation as one that stands in the journal of its host as it is now."""
    known = hosts.get(incarnation.host)
    if known is None or (incarnation.journal, incarnation.boot_id) == (
        known.journal,
        known.boot_id,
    ):
        return incarnation
    return incarnation.evolve(journal=known.journal, boot_id=known.boot_id)
