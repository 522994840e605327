"""The changes of one step: the only mutable object in the reducer, private to a step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from rpds import HashTrieMap

from samza_dagster.placement import journal, ownership, rules
from samza_dagster.placement.certificates import AuditRecord, digest_of
from samza_dagster.placement.commands import Command, RecordCertificate
from samza_dagster.placement.index import Index
from samza_dagster.placement.indexing import follow, with_host
from samza_dagster.placement.state import (
    Action,
    End,
    Failover,
    Group,
    Host,
    Incarnation,
    JobState,
    Lag,
    Limits,
    Orphan,
    PlacementAsk,
    Processor,
)

_REQUEST = "-request-"


class Draft:
    """A state under change and the commands that belong to the change."""

    def __init__(self, state: JobState, at_ms: int) -> None:
        self._before = state
        self._steps: dict[str, GroupStep] = {}
        self._index = state.index
        self._unindexed: dict[str, Group | None] = {}
        self._hosts = state.hosts
        self._commands: list[Command] = []
        self._next_epoch = state.next_epoch
        self._next_request = state.next_request
        self._uuids = state.uuids
        self._next_uuid = state.next_uuid
        self._refused = state.refused
        self._next_refused = state.next_refused
        self._certificates = state.certificates
        self._certificate_hash: str = state.certificate_hash
        self._certificate_at_ms: int = state.certificate_at_ms
        self.lags: HashTrieMap[str, Lag] = state.lags
        self.job = state.job
        self.deployment_id = state.deployment_id
        self.grouping = state.grouping
        self.regrouped_epoch = state.regrouped_epoch
        self.limits: Limits = state.limits
        self.now_ms = max(state.now_ms, at_ms)
        # Groups to settle before the step ends.
        self.unsettled: set[str] = set()

    @property
    def safe_job(self) -> str:
        """Return the job's name in the form that begins execution ids and request ids."""
        return _safe(self.job)

    @property
    def hosts(self) -> HashTrieMap[str, Host]:
        """Return every known host as of now."""
        return self._hosts

    @property
    def index(self) -> Index:
        """Return the index of the groups as of now."""
        if self._unindexed:
            self._index = follow(self._index, self._unindexed)
            self._unindexed = {}
        return self._index

    @property
    def lost_hosts(self) -> frozenset[str]:
        """Return the known hosts that are silent."""
        return self._index.lost_hosts

    def at(self, group_id: str) -> GroupStep:
        """Return the step of one group, which may be new."""
        step = self._steps.get(group_id)
        if step is None:
            step = GroupStep(self, group_id, self._before.groups.get(group_id))
            self._steps[group_id] = step
        return step

    def touch(self, step: GroupStep) -> None:
        """Note that a group has changed."""
        self._unindexed[step.group_id] = step.found
        if step.found is not None:
            self.unsettled.add(step.group_id)

    def groups(self) -> Iterator[Group]:
        """Yield every group as of now, by id."""
        # This walks over all groups, so only rare events use it.
        for group_id in sorted(set(self._before.groups) | self._steps.keys()):
            found = self.at(group_id).found
            if found is not None:
                yield found

    def of_id(self, identifier: str) -> GroupStep | None:
        """Return the group that owns a request uuid, resource request or execution id."""
        group_id = self.index.by_id.get(identifier)
        return None if group_id is None else self.at(group_id)

    def with_member(self, processor_id: str) -> GroupStep | None:
        """Return the group that has this processor as a wanted member."""
        group_id = self.index.by_processor.get(processor_id)
        return None if group_id is None else self.at(group_id)

    def note_lags(self, lags: Iterable[Lag]) -> None:
        """Store newer samples, except of processors that were removed or are being removed."""
        members = self.index.by_processor
        fresh = {lag.processor_id: lag for lag in lags if lag.processor_id in members}
        if fresh:
            self.lags = self.lags.update(fresh)

    def forget_lag(self, processor_id: str) -> None:
        """Drop a processor's sample, because its incarnation has ended."""
        if processor_id in self.lags:
            self.lags = self.lags.remove(processor_id)

    def put_host(self, host: Host) -> None:
        """Add or replace a host."""
        self._hosts = self._hosts.insert(host.host, host)
        self._index = with_host(self._index, host)

    def is_known(self, uuid: str) -> bool:
        """Return whether a request was seen before: remembered, or still in flight."""
        return uuid in self._uuids or uuid in self._refused or uuid in self.index.by_id

    def remember(self, uuid: str) -> None:
        """Remember a request uuid; beyond the limit the oldest is forgotten."""
        self._uuids = self._uuids.insert(uuid, self._next_uuid)
        order = self._index.uuid_order.insert(self._next_uuid, uuid)
        self._next_uuid += 1
        while len(self._uuids) > max(0, self.limits.remembered_uuids):
            place = self._next_uuid - len(self._uuids)
            self._uuids = self._uuids.remove(order[place])
            order = order.remove(place)
        self._index = self._index._replace(uuid_order=order)

    def remember_refused(self, uuid: str) -> None:
        """Remember the uuid of a request refused without the reducer, unless it is known."""
        if self.is_known(uuid):
            return
        self._refused = self._refused.insert(uuid, self._next_refused)
        order = self._index.refused_order.insert(self._next_refused, uuid)
        self._next_refused += 1
        while len(self._refused) > max(0, self.limits.remembered_uuids):
            place = self._next_refused - len(self._refused)
            self._refused = self._refused.remove(order[place])
            order = order.remove(place)
        self._index = self._index._replace(refused_order=order)

    def emit(self, *commands: Command) -> None:
        """Add commands in order."""
        self._commands.extend(commands)

    @property
    def next_certificate(self) -> tuple[int, str, int | None]:
        """Return the next audit record's number, and digest and time of the record before."""
        return self._certificates + 1, self._certificate_hash, self._certificate_at_ms or None

    def certify(self, record: AuditRecord) -> None:
        """Append an audit record, made for its place in the chain, with its digest."""
        record = replace(record, digest=digest_of(record))
        self._certificates, self._certificate_hash = record.number, record.digest
        self._certificate_at_ms = record.at_ms
        self.emit(RecordCertificate(record))

    def new_request_id(self) -> str:
        """Return a resource request id that the job never used before."""
        number = self._next_request
        self._next_request += 1
        return f"{self.safe_job}{_REQUEST}{number:06d}"

    def execution_id(self, processor_id: str, request_id: str) -> str:
        """Return the id of the only incarnation that may start on this request's resource.

        It derives from the request's id, so a resource that was requested under another name of
        the job starts the announced incarnation. A standby's `-` becomes `_`: the last two `-`
        are then those before processor and number, and ids of two jobs differ.
        """
        job, _, number = request_id.rpartition(_REQUEST)
        return f"{job}-{_safe(processor_id).replace('-', '_')}-{number}"

    @property
    def next_epoch(self) -> int:
        """Return the epoch of the next incarnation."""
        return self._next_epoch

    def new_incarnation(self, processor_id: str, host: str, request_id: str) -> Incarnation:
        """Return the next incarnation; its epoch is above every earlier one of the job."""
        epoch = self._next_epoch
        self._next_epoch += 1
        begun = Incarnation(epoch, self.execution_id(processor_id, request_id), host, request_id)
        return journal.entered(self.hosts, begun)

    def result(self) -> JobState:
        """Return the state after the step."""
        groups = self._before.groups
        for group_id, step in self._steps.items():
            before, after = groups.get(group_id), step.found
            if after is before:
                continue
            if after is None:
                groups = groups.remove(group_id)
            elif before != after:
                groups = groups.insert(group_id, after.evolve(sequence=after.sequence + 1))
        # Positional, because each step ends here and names would double the cost.
        return JobState(
            self._before.job,
            self.deployment_id,
            groups,
            self._hosts,
            self.limits,
            self._next_epoch,
            self._next_request,
            self.now_ms,
            self._uuids,
            self._next_uuid,
            self._certificates,
            self._certificate_hash,
            self.grouping,
            self.regrouped_epoch,
            self.lags,
            self._refused,
            self._next_refused,
            self._certificate_at_ms,
            self.index,
        )

    @property
    def commands(self) -> tuple[Command, ...]:
        """Return the commands so far, in order."""
        return tuple(self._commands)


class GroupStep:
    """A group within a step: its state as of now, and its changes.

    A `Draft` has one for each group, so `group` is always the newest.
    """

    __slots__ = ("draft", "found", "group_id")

    def __init__(self, draft: Draft, group_id: str, found: Group | None) -> None:
        self.draft = draft
        self.group_id = group_id
        # None before the group exists and after its end.
        self.found = found

    @property
    def group(self) -> Group:
        """Return the group as of now."""
        assert self.found is not None, f"no group {self.group_id}"
        return self.found

    @property
    def action(self) -> Action | None:
        """Return the group's action as of now; None also when the group has gone."""
        return None if self.found is None else self.found.action

    @property
    def now_ms(self) -> int:
        """Return the time of the step."""
        return self.draft.now_ms

    @property
    def hosts(self) -> HashTrieMap[str, Host]:
        """Return every known host as of now."""
        return self.draft.hosts

    @property
    def limits(self) -> Limits:
        """Return the job's bounds."""
        return self.draft.limits

    def emit(self, *commands: Command) -> None:
        """Add commands in order."""
        self.draft.emit(*commands)

    def processor(self, processor_id: str) -> Processor:
        """Return one processor as of now."""
        return self.group.processors[processor_id]

    def lag(self, processor_id: str) -> Lag | None:
        """Return the newest sample of a standby."""
        return self.draft.lags.get(processor_id)

    def forbidden_hosts(self, processor_id: str) -> set[str]:
        """Return every host that a processor of the group may not be on now."""
        lost = self.draft.lost_hosts
        return rules.forbidden_hosts(self.group, self.hosts, lost, processor_id)

    def put(self, group: Group) -> None:
        """Add or replace the group."""
        self.found = group
        self.draft.touch(self)

    def put_processor(self, processor: Processor) -> None:
        """Add or replace a processor."""
        processors = {**self.group.processors, processor.processor_id: processor}
        self.put(self.group.evolve(processors=processors))

    def change(self, processor_id: str, **changes: Any) -> None:
        """Change fields of a processor."""
        self.put_processor(self.processor(processor_id).evolve(**changes))

    def remove_processor(self, processor_id: str) -> None:
        """Drop a processor with its lag, and the group when it is empty."""
        # Its orphans keep its last end, for a later deployment that has the processor again.
        last_end = self.processor(processor_id).last_end
        orphans = _remembering(self.group.orphans, processor_id, last_end)
        self.draft.forget_lag(processor_id)
        left = {pid: p for pid, p in self.group.processors.items() if pid != processor_id}
        self._put_or_drop(self.group.evolve(processors=left, orphans=orphans))

    def add_orphan(self, orphan: Orphan) -> None:
        """Add an orphan to the group."""
        self.put(self.group.evolve(orphans=(*self.group.orphans, orphan)))

    def put_orphan(self, orphan: Orphan) -> None:
        """Replace the orphan of the same incarnation."""
        execution_id = orphan.incarnation.execution_id
        others = self.group.orphans
        orphans = (orphan if o.incarnation.execution_id == execution_id else o for o in others)
        self.put(self.group.evolve(orphans=tuple(orphans)))

    def drop_orphan(self, gone: Orphan, last_end: End | None = None) -> None:
        """Drop an orphan; other orphans of its processor keep its last end."""
        execution_id = gone.incarnation.execution_id
        others = (o for o in self.group.orphans if o.incarnation.execution_id != execution_id)
        orphans = _remembering(others, gone.processor_id, last_end)
        self._put_or_drop(self.group.evolve(orphans=orphans))

    def put_action(self, action: Action | None) -> None:
        """Set or end the group's action."""
        self._put_or_drop(self.group.evolve(action=action))

    def put_failover(self, failover: Failover | None) -> None:
        """Set or end the group's failover."""
        self.put(self.group.evolve(failover=failover))

    def put_queue(self, queue: tuple[PlacementAsk, ...]) -> None:
        """Replace the group's queue."""
        self._put_or_drop(self.group.evolve(queue=queue))

    def _put_or_drop(self, group: Group) -> None:
        kept = group.processors or group.orphans or group.action or group.queue
        self.found = group if kept else None
        self.draft.touch(self)


def _remembering(
    orphans: Iterable[Orphan], processor_id: str, last_end: End | None
) -> tuple[Orphan, ...]:
    """Return the orphans; those of this processor carry its newest incarnation's end."""
    return tuple(
        orphan.evolve(end=ownership.newest_end(orphan.end, last_end))
        if orphan.processor_id == processor_id
        else orphan
        for orphan in orphans
    )


@cache
def _safe(name: str) -> str:
    """Return `name` in characters that are safe in a path and a URL."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)
