"""How many actions may touch one host: what each touches, and who is still choosing.

An action touches its source, the standby's host that it takes, the host that it names, and,
once it is chosen, the host that any could have been. A host that as many touch as may isn't
chosen; only a container that is down meanwhile takes what it is given.
"""

from __future__ import annotations

from collections import Counter

from samza_dagster.placement.draft import Draft
from samza_dagster.placement.rules import Violation
from samza_dagster.placement.state import Action, ResourceRequest

ACTIONS_PER_HOST = "actions-per-host"


def touching(draft: Draft, but: str = "") -> Counter[str]:
    """How many actions touch each host, without that of the group `but`."""
    counts: Counter[str] = Counter()
    for group_id in draft.index.acting:
        action = draft.group(group_id).action
        if action is not None and group_id != but:
            counts.update(_touched(action))
    return counts


def full_hosts(draft: Draft, group_id: str) -> set[str]:
    """Hosts that as many actions of other groups touch as may."""
    limit = draft.limits.max_actions_per_host
    return {host for host, count in touching(draft, group_id).items() if count >= limit}


def full(draft: Draft, group_id: str, request: ResourceRequest, host: str) -> Violation | None:
    """Whether the host that was chosen has become full since it was asked for.

    A host that was asked for by name counts from the beginning.
    """
    if request.host is not None or host not in full_hosts(draft, group_id):
        return None
    limit = draft.limits.max_actions_per_host
    seen = f"{limit} actions touch {host}, the limit of a host"
    return Violation(ACTIONS_PER_HOST, host, seen, "ask again when one of them has ended")


def choosing(draft: Draft) -> int:
    """Actions for which a host among several is asked for."""
    actions = (draft.group(group_id).action for group_id in draft.index.acting)
    return sum(
        request is not None and request.host is None and request.allocated_host is None
        for action in actions
        if action is not None
        for request in (action.reservation, action.standby_reservation)
    )


def turns_left(draft: Draft, hosts: set[str]) -> int:
    """How many more actions may touch these hosts in all."""
    counts, limit = touching(draft), draft.limits.max_actions_per_host
    return sum(max(0, limit - counts[host]) for host in hosts)


def _touched(action: Action) -> set[str]:
    named = {
        action.source_host,
        action.target_host,
        action.ask.destination_host,
        *action.chosen_hosts,
    }
    return {host for host in named if host}
