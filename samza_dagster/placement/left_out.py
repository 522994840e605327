"""Why a request for any host left hosts out: told when it expires, one rule a host."""

from __future__ import annotations

from samza_dagster.placement import host_limit, rules
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import Group, ResourceRequest

# How many hosts an answer names; a lost rack may leave out hundreds.
_MOST = 10


def reason(draft: Draft, group: Group, processor_id: str, request: ResourceRequest) -> str:
    """What to append to an expired request's reason; "" when no host was left out.

    The cluster knows a host's room and says what it saw; that a rule of placement kept a
    host from being asked at all only the reducer knows. As things are now: what was in the
    way when the request was made may have gone, and asking again may succeed.
    """
    hosts = request.excluded_hosts
    if not hosts:
        return ""
    more = f" | and {len(hosts) - _MOST} more" if len(hosts) > _MOST else ""
    reasons = (_reason(draft, group, processor_id, request, host) for host in hosts[:_MOST])
    return f"; left out: {' | '.join(reasons)}{more}"


def _reason(
    draft: Draft, group: Group, processor_id: str, request: ResourceRequest, host: str
) -> str:
    own = group.processors.get(processor_id)
    if own is not None and own.incarnation is not None and own.incarnation.host == host:
        return f"{host}: {processor_id} is there, and another host was asked for"
    broken = rules.violation(group, draft.hosts, processor_id, host)
    broken = broken or host_limit.full(draft, group.group_id, request, host)
    if broken is None:
        return f"{host}: free by now, it wasn't as the request was made; ask again"
    return f"{host}: {broken.rule}: {broken.seen}; {broken.change}"
