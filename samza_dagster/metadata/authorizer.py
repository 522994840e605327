"""Logins and rules of a Kafka cluster: SCRAM users and ACLs, as an administrator sees them.

Rules and logins are acknowledged by the controller and reach each broker a moment later;
`principal_view.py` asks the brokers themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, admin

from samza_dagster.errors import (
    InvalidInput,
    MissingPrerequisite,
    SamzaDagsterError,
    Unreachable,
)
from samza_dagster.metadata.kafka_client import KafkaCluster, end_admin
from samza_dagster.metadata.kept_client import KeptClient

USER = "User:"
ALLOW, DENY = "ALLOW", "DENY"
ANYTHING = "*"
"""As a resource's name: every resource of its type. As a rule's principal after `User:`: everybody."""
ITERATIONS = 4096
"""The least that Kafka takes. A password of 256 random bits is no easier to find for it."""
_DEADLINE_S = 10.0


@dataclass(frozen=True, order=True)
class AclRule:
    """An ACL in Kafka's words: `User:alice` may (not) `WRITE` the `TOPIC` `name`."""

    principal: str
    permission: str
    operation: str
    resource: str
    name: str
    pattern: str = "LITERAL"
    host: str = ANYTHING


class Authorizer:
    """The rules and SCRAM logins of one cluster. Every call may be repeated.

    Each raises `MissingPrerequisite` where the cluster has no authorizer, `InvalidInput`
    where this client's own principal may not do it, `Unreachable`.
    """

    def __init__(self, cluster: KafkaCluster, *, deadline_s: float = _DEADLINE_S) -> None:
        self._cluster = cluster
        self._deadline_s = deadline_s
        self._kept: KeptClient[Any] = KeptClient(cluster.admin, end_admin)

    def close(self) -> None:
        """Ends the connection; the next call makes another."""
        self._kept.close()

    def require(self) -> None:
        """Returns when there is one, and this client may change its rules."""
        # librdkafka gives an empty list of rules for every error of `describe_acls`
        # (2.16); a removal of what nobody has changes nothing and tells errors.
        self.remove_rules_of([f"{USER}samza-dagster/nobody"])

    def rules(self, principal: str | None = None) -> list[AclRule]:
        """The rules for one principal, or all of the cluster, in order.

        Empty too where `require` would raise.
        """
        (found,) = self._ask("read the cluster's ACLs", "describe_acls", _filter(principal))
        return sorted(_rule(binding) for binding in found)

    def add_rules(self, rules: Sequence[AclRule]) -> None:
        """Returns when the controller has them."""
        bindings = [_binding(rule) for rule in rules]
        if bindings:
            self._ask("add ACLs", "create_acls", bindings)

    def remove_rules_of(self, principals: Iterable[str]) -> None:
        """Removes every rule, ALLOW and DENY, of each principal."""
        filters = [_filter(principal) for principal in principals]
        if filters:
            self._ask("remove ACLs", "delete_acls", filters)

    def logins(self) -> frozenset[str]:
        """Names of all users that have a SCRAM login."""
        (found,) = self._ask("list SCRAM logins", "describe_user_scram_credentials")
        return frozenset(found)

    def set_login(self, user: str, password: str, mechanism: str) -> None:
        """Creates or replaces a SCRAM login. Sessions that are open stay open.

        Only after a call that shows that this client may: librdkafka (2.16) aborts the
        process when the brokers refuse this one.
        """
        kinds = _kinds()
        info = kinds.ScramCredentialInfo(_mechanism(mechanism), ITERATIONS)
        wanted = kinds.UserScramCredentialUpsertion(user, info, password.encode())
        self._ask("create a SCRAM login", "alter_user_scram_credentials", [wanted])

    def remove_logins(self, users: Iterable[str], mechanism: str) -> None:
        """Removes SCRAM logins; a user that has none is no error. As careful as `set_login`."""
        kind, deletion = _mechanism(mechanism), _kinds().UserScramCredentialDeletion
        unwanted = [deletion(user, kind) for user in users]
        if unwanted:
            self._ask(
                "remove SCRAM logins",
                "alter_user_scram_credentials",
                unwanted,
                ignore=KafkaError.RESOURCE_NOT_FOUND,
            )

    def own_operations(self) -> frozenset[str]:
        """Return the operations on the cluster that this client may use: `ALTER`, `DESCRIBE`, …."""
        (found,) = self._ask(
            "read this client's own rights on the cluster",
            "describe_cluster",
            include_authorized_operations=True,
        )
        return frozenset(operation.name for operation in found.authorized_operations or ())

    def _ask(
        self, asked: str, method: str, *given: Any, ignore: int | None = None, **named: Any
    ) -> list[Any]:
        """Answers to a method of the client, one or one of each that is `given`.

        librdkafka (2.16) puts it to the broker that it takes for the controller, for the whole time
        that it is given, also where that one is gone and another is. So half of the time is for
        the kept client, and half for a new one, which asks who it is. `ignore` is the code of an
        error that is none.
        """
        within_s = self._deadline_s / 2

        def once() -> list[Any]:
            with self._kept.use() as client:
                answer: Any = getattr(client, method)(*given, request_timeout=within_s, **named)
                futures = cast("Any", answer).values() if isinstance(answer, dict) else (answer,)
                return [self._result(asked, future, within_s, ignore) for future in futures]

        try:
            return once()
        except Unreachable:
            return once()

    def _result(self, asked: str, future: Any, within_s: float, ignore: int | None) -> Any:
        try:
            return future.result(within_s + 1)
        except TimeoutError as error:
            raise self._cluster.unreachable(asked, self._deadline_s) from error
        except KafkaException as error:
            if error.args[0].code() == ignore:
                return None
            raise self._failure(asked, error) from error

    def _failure(self, asked: str, error: Any) -> SamzaDagsterError:
        what, servers = error.args[0], self._cluster.bootstrap_servers
        if what.code() == KafkaError.SECURITY_DISABLED:
            return MissingPrerequisite(
                f"{asked} at {servers}",
                seen="the brokers have no authorizer",
                fix="authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer "
                "in the brokers' settings, or samza.dagster.fencing=lease",
            )
        if what.code() in (
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
            KafkaError.UNSUPPORTED_SASL_MECHANISM,
            KafkaError.UNSUPPORTED_VERSION,
            KafkaError.UNACCEPTABLE_CREDENTIAL,
        ):
            return InvalidInput(
                f"{asked} at {servers}",
                seen=what.str(),
                fix="give the coordinator's principal ALTER and DESCRIBE on the cluster",
            )
        return self._cluster.failure(asked, what, self._deadline_s)


def _mechanism(name: str) -> Any:
    return _kinds().ScramMechanism[name.replace("-", "_")]


def _kinds() -> Any:
    """The client's module of words; it re-exports what its type hints call private."""
    return admin


def _binding(rule: AclRule) -> Any:
    kinds = _kinds()
    return kinds.AclBinding(
        # Kafka's CLUSTER is this client's BROKER.
        kinds.ResourceType["BROKER" if rule.resource == "CLUSTER" else rule.resource],
        rule.name,
        kinds.ResourcePatternType[rule.pattern],
        rule.principal,
        rule.host,
        kinds.AclOperation[rule.operation],
        kinds.AclPermissionType[rule.permission],
    )


def _filter(principal: str | None) -> Any:
    kinds = _kinds()
    return kinds.AclBindingFilter(
        kinds.ResourceType.ANY,
        None,
        kinds.ResourcePatternType.ANY,
        principal,
        None,
        kinds.AclOperation.ANY,
        kinds.AclPermissionType.ANY,
    )


def _rule(binding: Any) -> AclRule:
    kind = binding.restype.name
    return AclRule(
        principal=binding.principal,
        permission=binding.permission_type.name,
        operation=binding.operation.name,
        resource="CLUSTER" if kind == "BROKER" else kind,
        name=binding.name,
        pattern=binding.resource_pattern_type.name,
        host=binding.host,
    )
