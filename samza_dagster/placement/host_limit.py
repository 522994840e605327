"""How many actions may touch one host: what each touches, and who is still choosing.

An action touches its source, the standby's host that it takes, the host that it names, and,
once it is chosen, the host that any could have been. A host that as many touch as may isn't
chosen; only a container that is down meanwhile takes what it is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from samza_dagster.model import naming
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.rules import Violation
from samza_dagster.placement.state import Action, ResourceRequest

ACTIONS_PER_HOST = "actions-per-host"


def _touching(draft: Draft, but: str = "") -> Counter[str]:
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
    return {host for host, count in _touching(draft, group_id).items() if count >= limit}


def full(draft: Draft, group_id: str, request: ResourceRequest, host: str) -> Violation | None:
    """Whether the host that was chosen has become full since it was asked for.

    A host that was asked for by name counts from the beginning.
    """
    if request.host is not None or host not in full_hosts(draft, group_id):
        return None
    limit = draft.limits.max_actions_per_host
    seen = f"{limit} actions touch {host}, the limit of a host"
    return Violation(ACTIONS_PER_HOST, host, seen, "ask again when one of them has ended")


def choosing(draft: Draft) -> list[ResourceRequest]:
    """What actions ask for of which a host among several is yet to be chosen."""
    actions = (draft.group(group_id).action for group_id in draft.index.acting)
    return [
        request
        for action in actions
        if action is not None
        for request in (action.reservation, action.standby_reservation)
        if request is not None and request.host is None and request.allocated_host is None
    ]


def why_not(draft: Draft, touched: set[str], excluded: set[str] | None) -> str | None:
    """For which turn a request waits that touches these hosts, and chooses among the others.

    `excluded`: what it may not choose; None: it chooses none. It waits while a host that it
    touches is full, or all of its choice; or where it would leave fewer turns than there are
    actions which are yet to choose. A choice without a legal host waits for none.
    """
    counts, limit = _touching(draft), draft.limits.max_actions_per_host
    busy = next((host for host in sorted(touched) if counts[host] >= limit), None)
    if busy is not None:
        return f"{limit} actions touch {busy}, the limit of a host"
    open_ = choosing(draft)
    if excluded is None and not open_:
        return None
    turns = _Turns(draft, counts)
    chooses = False
    if excluded is not None and turns.any_host(excluded):
        chooses = True
        if turns.left(excluded) <= len(open_):
            return f"{limit} actions touch each host that it could go to, or are about to choose it"
    for request in open_:
        left = turns.left(request.excluded_hosts)
        taken = sum(h in draft.hosts and h not in request.excluded_hosts for h in touched)
        if left >= len(open_) > left - taken - chooses:
            return f"{limit} actions touch a host at most, and others are about to choose one"
    return None


class _Turns:
    """How many more actions may touch hosts, by those that are excluded: few, of many hosts."""

    def __init__(self, draft: Draft, counts: Counter[str]) -> None:
        self._hosts, self._counts = draft.hosts, counts
        self._limit = max(0, draft.limits.max_actions_per_host)
        used = sum(min(self._limit, n) for host, n in counts.items() if host in self._hosts)
        self._all = self._limit * len(self._hosts) - used

    def left(self, excluded: Iterable[str]) -> int:
        """On all hosts but the excluded ones."""
        return self._all - sum(
            max(0, self._limit - self._counts[host])
            for host in set(excluded)
            if host in self._hosts
        )

    def any_host(self, excluded: set[str]) -> bool:
        """Whether any host isn't excluded."""
        return len(self._hosts) > sum(host in self._hosts for host in excluded)


def _touched(action: Action) -> set[str]:
    named = {
        action.source_host,
        action.target_host,
        action.ask.destination_host,
        *action.chosen_hosts,
    }
    return {host for host in named if host and host not in naming.DESTINATION_WORDS}
