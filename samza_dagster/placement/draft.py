"""What one step has changed so far: the only mutable thing in the heart, and private to a step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from samza_dagster.placement.commands import Command
from samza_dagster.placement.state import (
    Action,
    Group,
    Host,
    Incarnation,
    JobState,
    Limits,
    PlacementAsk,
    Processor,
)


class Draft:
    """A state under change and the commands that go with it."""

    def __init__(self, state: JobState, at_ms: int) -> None:
        self._before = state
        self._groups: dict[str, Group] = dict(state.groups)
        self._hosts: dict[str, Host] = dict(state.hosts)
        self._commands: list[Command] = []
        self._next_epoch = state.next_epoch
        self._next_request = state.next_request
        self._uuids = state.uuids
        self.job = state.job
        self.deployment_id = state.deployment_id
        self.limits: Limits = state.limits
        self.now_ms = max(state.now_ms, at_ms)

    @property
    def safe_job(self) -> str:
        """The job's name as it begins execution ids and request ids."""
        return _safe(self.job)

    @property
    def groups(self) -> Mapping[str, Group]:
        """Every group as it is now."""
        return self._groups

    @property
    def hosts(self) -> Mapping[str, Host]:
        """Every known host as it is now."""
        return self._hosts

    @property
    def uuids(self) -> tuple[str, ...]:
        """The remembered request uuids, oldest first."""
        return self._uuids

    def group(self, group_id: str) -> Group:
        """One group as it is now."""
        return self._groups[group_id]

    def processor(self, group_id: str, processor_id: str) -> Processor:
        """One processor as it is now."""
        return self._groups[group_id].processors[processor_id]

    def put_group(self, group: Group) -> None:
        """Adds or replaces a group."""
        self._groups[group.group_id] = group

    def remove_group(self, group_id: str) -> None:
        """Drops a group."""
        self._groups.pop(group_id, None)

    def put_processor(self, group_id: str, processor: Processor) -> None:
        """Adds or replaces a processor of a group."""
        group = self._groups[group_id]
        processors = {**group.processors, processor.processor_id: processor}
        self._groups[group_id] = replace(group, processors=processors)

    def remove_processor(self, group_id: str, processor_id: str) -> None:
        """Drops a processor, and its group with the last one."""
        group = self._groups[group_id]
        left = {pid: p for pid, p in group.processors.items() if pid != processor_id}
        if left:
            self._groups[group_id] = replace(group, processors=left)
        else:
            self.remove_group(group_id)

    def put_action(self, group_id: str, action: Action | None) -> None:
        """Sets or ends the action of a group."""
        self._groups[group_id] = replace(self._groups[group_id], action=action)

    def put_queue(self, group_id: str, queue: tuple[PlacementAsk, ...]) -> None:
        """Replaces the queue of a group."""
        self._groups[group_id] = replace(self._groups[group_id], queue=queue)

    def put_host(self, host: Host) -> None:
        """Adds or replaces a host."""
        self._hosts[host.host] = host

    def remember(self, uuid: str) -> None:
        """Adds a request uuid; beyond the limit the oldest is forgotten."""
        kept = self.limits.remembered_uuids
        self._uuids = (*self._uuids, uuid)[-kept:] if kept > 0 else ()

    def emit(self, *commands: Command) -> None:
        """Adds commands in order."""
        self._commands.extend(commands)

    def new_request_id(self) -> str:
        """A resource request's id: never used before in the job's life."""
        number = self._next_request
        self._next_request += 1
        return f"{self.safe_job}-request-{number:06d}"

    def new_incarnation(self, processor_id: str, host: str, request_id: str) -> Incarnation:
        """The next incarnation; its epoch is above every earlier one of the job."""
        epoch = self._next_epoch
        self._next_epoch += 1
        execution_id = f"{self.safe_job}-{_safe(processor_id)}-{epoch:06d}"
        return Incarnation(epoch, execution_id, host, request_id)

    def snapshot(self) -> JobState:
        """The state as the step has made it so far."""
        before = self._before.groups
        groups: dict[str, Group] = {}
        for group_id, group in self._groups.items():
            earlier = before.get(group_id)
            if earlier == group:
                groups[group_id] = group
            else:
                sequence = earlier.sequence if earlier is not None else group.sequence
                groups[group_id] = replace(group, sequence=sequence + 1)
        return replace(
            self._before,
            deployment_id=self.deployment_id,
            groups=groups,
            hosts=dict(self._hosts),
            limits=self.limits,
            next_epoch=self._next_epoch,
            next_request=self._next_request,
            now_ms=self.now_ms,
            uuids=self._uuids,
        )

    @property
    def commands(self) -> tuple[Command, ...]:
        """The commands so far, in order."""
        return tuple(self._commands)


def _safe(name: str) -> str:
    """`name` in characters that are safe in a path and a URL."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)
