"""The broker fence: logins and rights of incarnations, and the rule that shuts one out.

An incarnation gets its login before its start is sent, and loses it when it was seen dead. A
fence is acknowledged once every broker has confirmed that it refuses the principal.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from samza_dagster.coordinator.fencing.principals import (
    PrincipalNames,
    Principals,
    is_fresh_rehearsal,
)
from samza_dagster.errors import SamzaDagsterError
from samza_dagster.metadata.authorizer import AclRule, Authorizer
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.principal_view import DEADLINE_S, PrincipalView
from samza_dagster.placement.logins import incarnations, launched_without
from samza_dagster.placement.state import Fencing, JobState

_AGAIN_S = 0.5
_CLOSE_S = 2.0
_KNOWN_S = 1.0
log = logging.getLogger(__name__)


class BrokerFence:
    """The fence at a Kafka cluster with SCRAM and an authorizer.

    `fenced` is called from a thread of its own, once for each request that was met.
    """

    def __init__(
        self,
        principals: Principals,
        authorizer: Authorizer,
        *,
        security: dict[str, str],
        fenced: Callable[[str], None],
    ) -> None:
        self._principals = principals
        self._authorizer = authorizer
        self._security = security
        self._fenced = fenced
        self._rights: tuple[AclRule, ...] | None = None
        self._admitted: set[str] = set()
        self._left_out: frozenset[str] = frozenset()
        self._changed = threading.Condition()
        self._to_fence: dict[str, None] = {}
        self._to_remove: dict[str, None] = {}
        self._kept_because = ""
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="broker fence", daemon=True)

    @classmethod
    def at(
        cls, principals: Principals, cluster: KafkaCluster, fenced: Callable[[str], None]
    ) -> BrokerFence:
        """Return the fence at the coordinator's own cluster.

        The principals share its TLS settings.
        """
        return cls(
            principals,
            Authorizer(cluster),
            security=_security_of(principals, cluster),
            fenced=fenced,
        )

    def start(self) -> None:
        """Start the thread that fences."""
        self._thread.start()

    def close(self) -> None:
        """Stop; the next leader completes an unacknowledged fence."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.is_alive():  # a call at brokers that are away isn't waited for
            self._thread.join(_CLOSE_S)

    def leave_out(self, execution_ids: frozenset[str]) -> None:
        """Create no login for these, though their starts are repeated (`launched_without`)."""
        self._left_out = execution_ids

    def admit(self, execution_id: str) -> None:
        """Create its login; return once each broker that answers within a second knows it.

        Nothing is changed for one that this term has admitted, or leaves out. Raises
        `SamzaDagsterError`.
        """
        if execution_id in self._admitted or execution_id in self._left_out:
            return
        principals = self._principals
        if self._rights is None:
            self._authorizer.require()
            self._rights = _granted_rules(principals, self._authorizer)
        self._authorizer.add_rules(principals.rights(execution_id, self._rights))
        self._set_login(execution_id)
        self._wait_until_known(execution_id)
        self._admitted.add(execution_id)

    def fence(self, execution_id: str) -> None:
        """Shut it out; return at once and call `fenced` when it is done. May be repeated."""
        with self._changed:
            self._to_fence[execution_id] = None
            self._changed.notify()

    def remove(self, execution_id: str) -> None:
        """Remove login and rules of an incarnation that was seen dead; returns at once.

        The term retries it; the next term finds what remains.
        """
        with self._changed:
            self._to_fence.pop(execution_id, None)
            self._to_remove[execution_id] = None
            self._changed.notify()

    def clean_up(self, before: frozenset[str], state: JobState, now_ms: int) -> None:
        """Remove what a crash left of incarnations that were there `before` and aren't now.

        `before` is what `present` gave before this coordinator's first commit: a newer
        leader's incarnations can't be in it. An examination that may be under way elsewhere
        (`now_ms` is the wall clock's) keeps its principal, or it would fail.
        """
        unneeded = left_over(before, state, now_ms)
        if unneeded:
            log.info("removing logins and rules of %d dead containers", len(unneeded))
            self.remove_now(sorted(unneeded))

    def present(self) -> frozenset[str]:
        """Execution ids of this job that the brokers have a login or a rule for."""
        return present(self._principals, self._authorizer)

    def remove_now(self, execution_ids: Iterable[str]) -> None:
        """Remove logins and rules of dead incarnations."""
        unwanted = list(execution_ids)
        principals = self._principals
        self._authorizer.remove_rules_of(map(principals.principal, unwanted))
        self._authorizer.remove_logins(map(principals.user, unwanted), principals.mechanism)

    def fence_now(self, execution_id: str) -> tuple[str, ...]:
        """Set the rule and ask the brokers; return those that still serve the principal.

        It must be able to log in, or the brokers can't be asked: one that has no login yet
        was never started (`fencing_in_force`), and from now on can't be.
        """
        self._authorizer.add_rules(self._principals.fence(execution_id))
        self._set_login(execution_id)
        return self._view(execution_id, DEADLINE_S).brokers_still_serving()

    def _wait_until_known(self, execution_id: str) -> None:
        """Wait until every broker knows the login, or for a second: else a container's first connection fails.

        A broker that knows the login has its rules: they come before it in the metadata log.
        """
        try:
            without = self._view(execution_id, _KNOWN_S).brokers_without_login()
        except SamzaDagsterError as error:
            log.warning("%s may not be let in yet: %s", execution_id, error)
        else:
            if without:
                log.warning("%s may not be let in yet at %s", execution_id, ", ".join(without))

    def _view(self, execution_id: str, deadline_s: float) -> PrincipalView:
        principals = self._principals
        return PrincipalView(
            principals.bootstrap_servers,
            principals.user(execution_id),
            principals.password(execution_id),
            self._security,
            deadline_s,
        )

    def _set_login(self, execution_id: str) -> None:
        principals = self._principals
        self._authorizer.set_login(
            principals.user(execution_id), principals.password(execution_id), principals.mechanism
        )

    def _work(self) -> None:
        while True:
            with self._changed:
                while not (self._closed or self._to_fence or self._to_remove):
                    self._changed.wait()
                if self._closed:
                    return
                fences, removals = list(self._to_fence), list(self._to_remove)
            for execution_id in fences:
                if not self._closed:
                    self._try_to_fence(execution_id)
            if removals:
                self._try_to_remove(removals)

    def _try_to_fence(self, execution_id: str) -> None:
        try:
            serving = self.fence_now(execution_id)
            why = f"{', '.join(serving)} still serve it" if serving else ""
        except SamzaDagsterError as error:
            why = str(error)
        except Exception as error:  # the thread that fences must survive it
            log.exception("fencing %s failed", execution_id)
            why = repr(error)
        with self._changed:
            if execution_id not in self._to_fence:
                return  # seen dead meanwhile
            if not why:
                del self._to_fence[execution_id]
            else:
                log.warning("%s isn't fenced yet: %s", execution_id, why)
                self._changed.wait(0 if self._closed else _AGAIN_S)
        if not why:
            log.info("%s is fenced: every broker refuses it", execution_id)
            self._fenced(execution_id)

    def _try_to_remove(self, execution_ids: list[str]) -> None:
        why = ""
        try:
            self.remove_now(execution_ids)
        except SamzaDagsterError as error:
            why = str(error)
        except Exception as error:  # as above
            why = repr(error)
            if why != self._kept_because:
                log.exception("removing logins and rules of dead containers failed")
        if why and why != self._kept_because:  # once: brokers may be away for hours
            log.warning("logins and rules of dead containers stay for now: %s", why)
        self._kept_because = why
        with self._changed:
            if not why:
                for execution_id in execution_ids:
                    del self._to_remove[execution_id]
            elif not self._closed:
                self._changed.wait(_AGAIN_S)


def _security_of(principals: Principals, cluster: KafkaCluster) -> dict[str, str]:
    """Return a principal's connection settings: the coordinator's TLS, the containers' listener."""
    return {**cluster.tls_settings(), **principals.security()}


def _granted_rules(principals: Principals, authorizer: Authorizer) -> tuple[AclRule, ...]:
    """Return the rules that each incarnation gets a copy of."""
    return tuple(authorizer.rules(principals.rights_of)) if principals.rights_of else ()


def present(names: PrincipalNames, authorizer: Authorizer) -> frozenset[str]:
    """Execution ids of the job that the brokers have a login or a rule for."""
    found = authorizer.logins() | {rule.principal for rule in authorizer.rules()}
    ids = {names.execution_id(name) for name in found}
    return frozenset(each for each in ids if each is not None)


def left_over(before: frozenset[str], state: JobState, now_ms: int) -> frozenset[str]:
    """Return logins known to be dead, of those that `present` gave before `state` was committed.

    An incarnation is in the state before it is let in, and until it was seen dead. A
    rehearsal that may still go on (`now_ms` is the wall clock's) isn't over.
    """
    return frozenset(
        each for each in before - incarnations(state) if not is_fresh_rehearsal(each, now_ms)
    )


def fencing_in_force(wanted: Fencing, state: JobState, present: frozenset[str]) -> Fencing:
    """Return the fencing in force this term: a fence means nothing to containers without principals.

    Where leases were in force before, containers may run without a principal of their own. While
    one does, leases stay in force until the next leader looks again. Where the fence was in
    force, every started container has a principal.
    """
    without = sorted(launched_without(state, present))
    if wanted is Fencing.LEASE or not without:
        return wanted
    log.warning(
        "%s run without a principal of their own: leases count, until this coordinator is "
        "started again after they were replaced",
        ", ".join(without),
    )
    return Fencing.LEASE
