"""The limit of actions per host: which hosts each action touches, and which still choose.

An action touches its source, the host that it names, and a host that was chosen for it. It also
touches the host of the standby that it displaces. A host at its limit isn't chosen. Only a
container that is down meanwhile takes any host that it gets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from samza_dagster.model import naming
from samza_dagster.placement import rules
from samza_dagster.placement.draft import Draft, GroupStep
from samza_dagster.placement.rules import Violation
from samza_dagster.placement.state import (
    Action,
    Move,
    ResourceRequest,
    SpinUp,
    Start,
    Swap,
    request_of,
)

ACTIONS_PER_HOST = "actions-per-host"
# Most hosts that an answer names; the loss of a rack may exclude hundreds.
_MOST_NAMED = 10


def _touching(draft: Draft, but: str = "") -> Counter[str]:
    """Return how many actions touch each host, without the action of the group `but`."""
    counts: Counter[str] = Counter()
    for group_id in draft.index.acting:
        action = draft.at(group_id).action
        if action is not None and group_id != but:
            counts.update(_touched(action))
    return counts


def full_hosts(step: GroupStep) -> set[str]:
    """Return the hosts that actions of other groups touch up to the limit."""
    limit = step.limits.max_actions_per_host
    return {host for host, count in _touching(step.draft, step.group_id).items() if count >= limit}


def excluded(step: GroupStep, processor_id: str, *leave_out: str) -> set[str]:
    """Return the hosts that an action may not choose for a processor, `leave_out` among them."""
    return step.forbidden_hosts(processor_id) | full_hosts(step) | {*leave_out}


def full_violation(step: GroupStep, request: ResourceRequest, host: str) -> Violation | None:
    """Return the violation when the chosen host has become full since the request."""
    # A named host counts from the beginning.
    if request.host is not None or host not in full_hosts(step):
        return None
    limit = step.limits.max_actions_per_host
    seen = f"{limit} actions touch {host}, the limit of a host"
    return Violation(ACTIONS_PER_HOST, host, seen, "ask again when one of them has ended")


def choosing(draft: Draft) -> list[ResourceRequest]:
    """Return the open requests of actions for which the cluster still has to choose a host."""
    requests = (request_of(draft.at(group_id).action) for group_id in draft.index.acting)
    return [it for it in requests if it and it.host is None and it.allocated_host is None]


def reason_to_wait(draft: Draft, touched: set[str], excluded: set[str] | None) -> str | None:
    """Return why a request that touches these hosts has to wait; None when it may begin.

    `excluded` are the hosts that it may not choose; None: it chooses none. A request waits while
    a host that it touches is full, or all of its choice. It also waits where it would leave fewer
    turns than actions that still have to choose. A choice without a legal host doesn't wait.
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
    """How many more actions may touch hosts. Sums are over the excluded hosts, which are few."""

    def __init__(self, draft: Draft, counts: Counter[str]) -> None:
        self._hosts, self._counts = draft.hosts, counts
        self._limit = max(0, draft.limits.max_actions_per_host)
        used = sum(min(self._limit, n) for host, n in counts.items() if host in self._hosts)
        self._all = self._limit * len(self._hosts) - used

    def left(self, excluded: Iterable[str]) -> int:
        """Return the turns on all hosts except the excluded ones."""
        return self._all - sum(
            max(0, self._limit - self._counts[host])
            for host in set(excluded)
            if host in self._hosts
        )

    def any_host(self, excluded: set[str]) -> bool:
        """Return whether any host isn't excluded."""
        return len(self._hosts) > sum(host in self._hosts for host in excluded)


def _touched(action: Action) -> set[str]:
    named = {action.ask.destination_host}
    if not isinstance(action, SpinUp):
        named.add(action.source_host or "")
    if isinstance(action, (Swap, Move, Start, SpinUp)):
        named.add(action.chosen_host or "")
    if isinstance(action, (Swap, Move, Start)) and action.place is not None:
        named.add(action.place.host)
    return {host for host in named if host and host not in naming.DESTINATION_WORDS}


def left_out(step: GroupStep, processor_id: str, request: ResourceRequest) -> str:
    """Return the text on excluded hosts for an expired request's reason; "" without any.

    The cluster knows a host's room; only the reducer knows that a rule excluded a host from the
    choice. The text describes the present: an obstacle of the time of the request may have gone,
    and a new request may succeed.
    """
    hosts = request.excluded_hosts
    if not hosts:
        return ""
    more = f" | and {len(hosts) - _MOST_NAMED} more" if len(hosts) > _MOST_NAMED else ""
    reasons = (_why_left_out(step, processor_id, request, host) for host in hosts[:_MOST_NAMED])
    return f"; left out: {' | '.join(reasons)}{more}"


def _why_left_out(step: GroupStep, processor_id: str, request: ResourceRequest, host: str) -> str:
    own = step.group.processors.get(processor_id)
    if own is not None and own.incarnation is not None and own.incarnation.host == host:
        return f"{host}: {processor_id} is there, and another host was asked for"
    broken = rules.violation(step.group, step.hosts, processor_id, host)
    broken = broken or full_violation(step, request, host)
    if broken is None:
        return f"{host}: free by now, it wasn't as the request was made; ask again"
    return f"{host}: {broken.rule}: {broken.seen}; {broken.change}"
