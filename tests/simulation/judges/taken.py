"""One step as the judges read it: what was, what happened, what is, and what was said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar, cast

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import (
    Failover,
    Group,
    Incarnation,
    JobState,
    Orphan,
    Processor,
)
from tests.simulation.judges.legality import knows
from tests.simulation.judges.violation import InvariantViolated

C = TypeVar("C")


@dataclass(frozen=True)
class Both:
    """A processor before and after; None where it wasn't there."""

    processor_id: str
    was: Processor | None
    now: Processor | None
    old: Group | None
    group: Group | None

    @property
    def begun(self) -> Incarnation | None:
        """The incarnation that it has, and hadn't before."""
        had = None if self.was is None else self.was.incarnation
        has = None if self.now is None else self.now.incarnation
        return has if has is not None and (had is None or had.epoch != has.epoch) else None


@dataclass(frozen=True)
class Taken:
    """A step. `changed` are (old, new) of the groups that aren't the same object any more."""

    before: JobState
    event: ev.Event
    after: JobState
    commands: tuple[cmd.Command, ...]
    changed: list[tuple[Group | None, Group | None]]
    said: dict[type, list[cmd.Command]] = field(default_factory=dict[type, list[cmd.Command]])

    @cached_property
    def now_ms(self) -> int:
        """The leader's clock in this step."""
        return self.after.now_ms

    @cached_property
    def restarted(self) -> bool:
        """A coordinator took over."""
        return isinstance(self.event, ev.CoordinatorRestarted)

    @cached_property
    def redeployed(self) -> bool:
        """Another deployment began."""
        return self.before.deployment_id != self.after.deployment_id

    @cached_property
    def both(self) -> list[Both]:
        """Every processor of the groups that changed."""
        return list(_both(self.changed))

    @cached_property
    def orphans(self) -> list[tuple[Orphan | None, Orphan | None]]:
        """Every orphan of the groups that changed, before and after."""
        pairs: list[tuple[Orphan | None, Orphan | None]] = []
        for old, new in self.changed:
            was = {g.incarnation.execution_id: g for g in (old.orphans if old else ())}
            now = {g.incarnation.execution_id: g for g in (new.orphans if new else ())}
            pairs += [(was.get(name), now.get(name)) for name in {**was, **now}]
        return pairs

    @cached_property
    def lost_now(self) -> dict[str, int]:
        """Hosts that this step takes for lost, each with its last grant.

        One that registers with another journal is lost for what was started on those before.
        """
        event = self.event
        if isinstance(event, ev.HostLost):
            return {event.host: event.last_grant_ms}
        if isinstance(event, ev.HostRegistered):
            strays = self._strays(event)
            return {event.host: event.at_ms} if strays else {}
        if self.before.hosts is self.after.hosts:
            return {}
        return {
            name: host.silent_since_ms
            for name, host in self.before.hosts.items()
            if host.alive and not self.after.hosts[name].alive
        }

    def _strays(self, event: ev.HostRegistered) -> bool:
        return any(
            processor.incarnation is not None
            and processor.incarnation.host == event.host
            and not knows(event, processor.incarnation)
            for group in self.before.groups.values()
            for processor in group.processors.values()
        )

    @cached_property
    def failovers_begun(self) -> list[tuple[Group | None, Group, Failover]]:
        """Groups before and after, with each failover that begins in this step.

        One that ends in the step may be alike to the last field; nothing changes one in
        being, so the object tells them apart.
        """
        return [
            (old, new, new.failover)
            for old, new in self.changed
            if new is not None and new.failover is not None
            if old is None or old.failover is not new.failover
        ]

    def every(self, kind: type[C]) -> list[C]:
        """The commands of one kind, in order."""
        if not self.said and self.commands:
            for command in self.commands:
                self.said.setdefault(type(command), []).append(command)
        return cast("list[C]", self.said.get(kind, []))

    def broken(self, rule: str, what: str) -> InvariantViolated:
        """A rule is broken in this step."""
        return InvariantViolated(rule, f"{what}; at {self.event}")


def _both(changed: list[tuple[Group | None, Group | None]]) -> Iterator[Both]:
    for old, new in changed:
        was: Mapping[str, Processor] = old.processors if old is not None else {}
        now: Mapping[str, Processor] = new.processors if new is not None else {}
        for pid in {**was, **now}:
            yield Both(pid, was.get(pid), now.get(pid), old, new)
