"""Logins and rules at the brokers that a job's coordinator left: it no longer fences, or is gone.

With `samza.dagster.fencing=broker` the coordinator removes what it made. A coordinator with
leases sends no such request, and needs no right to; older logins stay until they are removed
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from samza_dagster.coordinator.fencing.broker_fence import left_over, present
from samza_dagster.coordinator.fencing.principals import (
    MECHANISMS,
    PrincipalNames,
    is_fresh_rehearsal,
)
from samza_dagster.errors import InvalidInput, Refused
from samza_dagster.metadata.authorizer import Authorizer
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_owner import require_own_topics
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.state_topic import StateReader
from samza_dagster.metadata.zookeeper import ZooKeeperAddress, connect
from samza_dagster.placement.restoring import JOB, restore
from samza_dagster.placement.state import JobState
from samza_dagster.standalone.discovery import find_group
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup

_ASKED = "tell which containers with a login are dead"


@dataclass(frozen=True)
class ContainerLogin:
    """The brokers' login of one incarnation, or of one registration of a standalone processor.

    `dead`: it may be removed; `seen` says in words what is known of it.
    """

    execution_id: str
    principal: str
    dead: bool
    seen: str

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


def find(
    connection: Connection, now_ms: int, *, has_unregistered_ended: bool = False
) -> tuple[ContainerLogin, ...]:
    """Return all logins of the job, in order; `now_ms` is the wall clock's.

    An incarnation is dead once it isn't in the job's state, where each stays until it was seen
    dead, also on a lost host. In a standalone group only the processor itself sees a death, and
    then removes the login itself: a registration that is gone counts as dead if the caller knows
    that all of its containers have ended. Raises `Refused` without a state or with another
    job's, `MissingPrerequisite` for brokers without an authorizer, `InvalidInput` where this
    client's principal lacks ALTER or DESCRIBE on the cluster, and `Unreachable`.
    """
    names = PrincipalNames(connection.job_name, connection.job_id)
    if not connection.zookeeper:
        require_own_topics(connection)
    with closing(Authorizer(KafkaCluster.of(connection))) as authorizer:
        _require(authorizer)
        found = present(names, authorizer)
    # After that: every earlier login's owner is in the state by now, or registered.
    if connection.zookeeper:
        registered = _registered(connection)
        known = dict.fromkeys(registered, "registered")
        rehearsals = {each for each in found if is_fresh_rehearsal(each, now_ms)}
        dead = found - registered - rehearsals if has_unregistered_ended else frozenset[str]()
        other = "not registered, but nobody has seen it dead"
    else:
        dead = left_over(found, _state(connection), now_ms) if found else frozenset[str]()
        known, other = dict[str, str](), "not seen dead"
    return tuple(
        ContainerLogin(
            each,
            names.principal(each),
            each in dead,
            "dead" if each in dead else known.get(each, other),
        )
        for each in sorted(found)
    )


def remove(connection: Connection, logins: Iterable[ContainerLogin]) -> None:
    """Remove login and rules, ALLOW and DENY, of the dead ones; repeating it does no harm."""
    names = PrincipalNames(connection.job_name, connection.job_id)
    dead = [login for login in logins if login.dead]
    if not dead:
        return
    with closing(Authorizer(KafkaCluster.of(connection))) as authorizer:
        authorizer.remove_rules_of(login.principal for login in dead)
        for mechanism in MECHANISMS:  # whichever it was: the config may not say it any more
            authorizer.remove_logins((names.user(login.execution_id) for login in dead), mechanism)


def _registered(connection: Connection) -> Set[str]:
    session = connect(ZooKeeperAddress(connection.zookeeper, settings=connection.zookeeper_config))
    try:
        paths = find_group(session, connection.job_name, connection.job_id)
        return ZooKeeperGroup(session, paths, lambda: None).registered()
    finally:
        session.stop()
        session.close()


def _require(authorizer: Authorizer) -> None:
    missing = sorted({"ALTER", "DESCRIBE"} - authorizer.own_operations())
    if missing:
        raise InvalidInput(
            "read and remove logins and rules at the brokers",
            seen=f"no {', '.join(missing)} on the cluster",
            fix="the coordinator's login, by SAMZA_DAGSTER_CLIENT_CONFIG",
        )
    authorizer.require()


def _state(connection: Connection) -> JobState:
    fix = "start the job's coordinator, or remove them by kafka-acls.sh and kafka-configs.sh"
    with closing(StateReader.of(connection)) as reader:
        try:
            records = reader.snapshot().values
        except InvalidInput as error:
            raise Refused(_ASKED, seen=error.seen, fix=fix) from error
    if JOB not in records:
        raise Refused(_ASKED, seen=f"no job in topic {connection.state_topic}", fix=fix)
    return restore(records, connection.own_name)
