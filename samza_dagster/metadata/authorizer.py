"""Logins and rules of a Kafka cluster: SCRAM users and ACLs, for an administrator.

The controller acknowledges rules and logins, and each broker gets them a moment later.
`principal_view.py` queries the brokers themselves.
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
"""The wildcard: every resource of a type, and after `User:` every principal."""
ITERATIONS = 4096
"""Kafka's minimum, which is enough for a password of 256 random bits."""
_DEADLINE_S = 10.0


@dataclass(frozen=True, order=True)
class AclRule:
    """An ACL in Kafka's terms: `User:alice` may (not) `WRITE` the `TOPIC` `name`."""

    principal: str
    permission: str
    operation: str
    resource: str
    name: str
    pattern: str = "LITERAL"
    host: str = ANYTHING


class Authorizer:
    """The rules and SCRAM logins of one cluster. Every call may be repeated.

    Each raises `MissingPrerequisite` where the cluster has no authorizer, `InvalidInput` where
    this client's own principal has no right, `Unreachable`.
    """

    def __init__(self, cluster: KafkaCluster, *, deadline_s: float = _DEADLINE_S) -> None:
        self._cluster = cluster
        self._deadline_s = deadline_s
        self._kept: KeptClient[Any] = KeptClient(cluster.admin, end_admin)

    def close(self) -> None:
        """End the connection; the next call makes another."""
        self._kept.close()

    def require(self) -> None:
        """Raise unless there is an authorizer and this client may change its rules."""
        # librdkafka (2.16) returns an empty list of rules for every error of `describe_acls`. The
        # removal of a rule that doesn't exist changes nothing and reports errors.
        self.remove_rules_of([f"{USER}samza-dagster/nobody"])

    def rules(self, principal: str | None = None) -> list[AclRule]:
        """Return the rules for one principal, or all of the cluster, in order.

        The result is also empty where `require` would raise.
        """
        (found,) = self._ask("read the cluster's ACLs", "describe_acls", _filter(principal))
        return sorted(_rule(binding) for binding in found)

    def add_rules(self, rules: Sequence[AclRule]) -> None:
        """Add rules; return when the controller has them."""
        bindings = [_binding(rule) for rule in rules]
        if bindings:
            self._ask("add ACLs", "create_acls", bindings)

    def remove_rules_of(self, principals: Iterable[str]) -> None:
        """Remove every rule, ALLOW and DENY, of each principal."""
        filters = [_filter(principal) for principal in principals]
        if filters:
            self._ask("remove ACLs", "delete_acls", filters)

    def logins(self) -> frozenset[str]:
        """Return the names of all users with a SCRAM login."""
        (found,) = self._ask("list SCRAM logins", "describe_user_scram_credentials")
        return frozenset(found)

    def set_login(self, user: str, password: str, mechanism: str) -> None:
        """Create or replace a SCRAM login. Open sessions stay open.

        Call it only after a call that proves this client's right: librdkafka (2.16) aborts the
        process when the brokers refuse this one.
        """
        kinds = _kinds()
        info = kinds.ScramCredentialInfo(_mechanism(mechanism), ITERATIONS)
        wanted = kinds.UserScramCredentialUpsertion(user, info, password.encode())
        self._ask("create a SCRAM login", "alter_user_scram_credentials", [wanted])

    def remove_logins(self, users: Iterable[str], mechanism: str) -> None:
        """Remove SCRAM logins, if they exist. Call it with the care of `set_login`."""
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
        """Return this client's operations on the cluster: `ALTER`, `DESCRIBE`, …."""
        (found,) = self._ask(
            "read this client's own rights on the cluster",
            "describe_cluster",
            include_authorized_operations=True,
        )
        return frozenset(operation.name for operation in found.authorized_operations or ())

    def _ask(
        self, asked: str, method: str, *given: Any, ignore: int | None = None, **named: Any
    ) -> list[Any]:
        """Return the answers to a method of the client, one or one for each item of `given`.

        `ignore` is the code of an error that doesn't count.
        """
        # librdkafka (2.16) sends the request to the broker that it takes for the controller, and
        # waits the whole time, even when that broker is gone and another is the controller. So the
        # kept client has half of the time, and a new one, which looks the controller up, has the
        # other half.
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
    """Return the client's module of enums; it re-exports types that its hints call private."""
    return admin


def _binding(rule: AclRule) -> Any:
    kinds = _kinds()
    return kinds.AclBinding(
        # This client calls Kafka's CLUSTER BROKER.
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
