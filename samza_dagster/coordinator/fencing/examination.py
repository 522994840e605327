"""Examine whether the brokers of a job can fence: try each condition and report what was seen.

The last ones are a rehearsal with a principal of its own, which is removed again: it logs
in, uses the job's topics, is shut out, and every broker refuses it.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from samza_dagster.coordinator.clock import wall_clock_ms
from samza_dagster.coordinator.fencing.broker_fence import BrokerFence
from samza_dagster.coordinator.fencing.container_topics import container_topics
from samza_dagster.coordinator.fencing.principals import (
    RIGHTS_OF,
    Principals,
    rehearsal_id,
    systems_apart,
)
from samza_dagster.errors import MissingPrerequisite, Refused, SamzaDagsterError, Unreachable
from samza_dagster.metadata.authorizer import ALLOW, ANYTHING, AclRule, Authorizer
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.principal_view import PrincipalView

_DEADLINE_S = 3.0
_Found = TypeVar("_Found")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Condition:
    """A condition: whether it holds, what was seen, and what would make it hold."""

    check: str
    ok: bool
    seen: str = ""
    fix: str = ""


def examine(
    principals: Principals, cluster: KafkaCluster, config: Mapping[str, str]
) -> Iterator[Condition]:
    """Yield the conditions in order, up to the first that doesn't hold. Raises `Unreachable`."""
    authorizer = Authorizer(cluster)
    yielded = ""
    try:
        for finding in _examine(principals, cluster, authorizer, config):
            yielded = finding.check
            yield finding
            if not finding.ok:
                return
    except Unreachable:
        raise
    except SamzaDagsterError as error:
        yield Condition(f"what follows '{yielded}'" if yielded else _MAY_CHANGE, False, str(error))


def require_fence(principals: Principals, cluster: KafkaCluster, config: Mapping[str, str]) -> None:
    """Raise `Refused` that names the first condition which doesn't hold."""
    for finding in examine(principals, cluster, config):
        if not finding.ok:
            raise Refused(
                f"samza.dagster.fencing=broker: {finding.check}",
                seen=finding.seen,
                fix=finding.fix or "samza.dagster.fencing=lease",
            )
    apart = systems_apart(config, principals)
    if apart:
        log.warning("systems at other brokers, which no fence covers: %s", ", ".join(apart))


_MAY_CHANGE = "this client may change rules and logins"
_AUTHORIZER = "the brokers have an authorizer"
_RIGHTS = "there are rights for the job's containers"
_LOG_IN = "a container's principal can log in at every broker"
_TOPICS = "a container's principal may read and write the job's topics"
_CLOSED = "who has no rule is refused"
_FENCED = "every broker refuses a principal that is fenced"


def _examine(
    principals: Principals,
    cluster: KafkaCluster,
    authorizer: Authorizer,
    config: Mapping[str, str],
) -> Iterator[Condition]:
    missing = sorted({"ALTER", "DESCRIBE"} - authorizer.own_operations())
    yield Condition(
        _MAY_CHANGE,
        not missing,
        f"no {', '.join(missing)} on the cluster"
        if missing
        else "ALTER and DESCRIBE on the cluster",
        "ALLOW the coordinator's principal ALTER and DESCRIBE on the cluster",
    )
    try:
        authorizer.require()
    except MissingPrerequisite as error:
        yield Condition(_AUTHORIZER, False, error.seen, error.fix)
        return
    rules = authorizer.rules()
    yield Condition(_AUTHORIZER, True, f"{len(rules)} rules")
    yield rights(principals, authorizer.rules)
    name = rehearsal_id(wall_clock_ms())
    fence = BrokerFence.at(principals, cluster, lambda _: None)
    try:
        yield from _rehearse(principals, cluster, fence, name, rules, config)
    finally:
        fence.remove_now([name])


def rights(principals: Principals, read: Callable[[], list[AclRule]]) -> Condition:
    """Check whether containers have rights; a new rule reaches a broker a moment later."""
    return _settled(lambda: _rights_among(principals, read()), lambda found: found.ok)


def _rights_among(principals: Principals, rules: list[AclRule]) -> Condition:
    of = principals.rights_of
    granted = [r for r in rules if r.permission == ALLOW and r.principal == of]
    everybody = [r for r in rules if r.permission == ALLOW and r.principal == f"User:{ANYTHING}"]
    if of:
        seen = f"{len(granted)} ALLOW rules of {of}"
        return Condition(_RIGHTS, bool(granted), seen, f"add ALLOW rules for {of}")
    return Condition(
        _RIGHTS,
        bool(everybody),
        f"{len(everybody)} ALLOW rules for User:{ANYTHING}",
        f"{RIGHTS_OF}=User:<whose rules each container gets>",
    )


def _rehearse(
    principals: Principals,
    cluster: KafkaCluster,
    fence: BrokerFence,
    name: str,
    rules: list[AclRule],
    config: Mapping[str, str],
) -> Iterator[Condition]:
    fence.admit(name)
    view = PrincipalView(
        principals.bootstrap_servers,
        principals.user(name),
        principals.password(name),
        {**cluster.tls_settings(), **principals.security()},
    )
    wanted = container_topics(config, principals.systems)
    try:
        without = view.brokers_without_login()
        seen = f"not at {', '.join(without)}"
        lacking = {} if without else _settled(lambda: view.lacking(wanted))
    except Unreachable as error:
        without, seen, lacking = (principals.bootstrap_servers,), error.seen, {}
    if without:
        yield Condition(_LOG_IN, False, seen, f"a SASL listener with {principals.mechanism}")
        return
    yield Condition(_LOG_IN, True, f"{principals.bootstrap_servers}, {principals.mechanism}")
    yield Condition(
        _TOPICS,
        not lacking,
        "; ".join(f"no {what} on {topic}" for topic, what in sorted(lacking.items()))
        or f"{len(wanted)} topics",
        f"ALLOW {principals.rights_of or 'User:*'} READ and WRITE on them",
    )
    # With `allow.everyone.if.no.acl.found` a topic without rules is open to everybody. A rule
    # on all topics, even for a single principal, ends that.
    is_ruled = any((r.resource, r.name) == ("TOPIC", ANYTHING) for r in rules)
    open_for_all = () if is_ruled else view.brokers_reporting(secrets.token_hex(12))
    yield Condition(
        _CLOSED,
        not open_for_all,
        f"it may use a topic that no rule speaks of at {', '.join(open_for_all)}"
        if open_for_all
        else "refused",
        "allow.everyone.if.no.acl.found=false in the brokers' settings, and rules for whoever "
        "needs them: a fence is a rule on all topics, and would end that they are open",
    )
    serving = _settled(lambda: fence.fence_now(name))
    yield Condition(_FENCED, not serving, ", ".join(serving) or "refused")


def _settled(
    look: Callable[[], _Found], is_good: Callable[[_Found], bool] = lambda wrong: not wrong
) -> _Found:
    """Repeat the look until its result is good, or the deadline; an error counts only then."""
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        late = time.monotonic() > deadline
        try:
            found = look()
        except Unreachable:
            if late:
                raise
        else:
            if late or is_good(found):
                return found
        time.sleep(0.05)
