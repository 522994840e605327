"""What one step has changed so far: the only mutable thing in the reducer, and private to a step."""

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
    """A state under change and the commands that go with it."""

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
        # Groups that something may follow for before the step ends.
        self.unsettled: set[str] = set()

    @property
    def safe_job(self) -> str:
        """The job's name as it begins execution ids and request ids."""
        return _safe(self.job)

    @property
    def hosts(self) -> HashTrieMap[str, Host]:
        """Every known host as it is now."""
        return self._hosts

    @property
    def index(self) -> Index:
        """The index, true for the groups as they are now."""
        if self._unindexed:
            self._index = follow(self._index, self._unindexed)
            self._unindexed = {}
        return self._index

    @property
    def lost_hosts(self) -> frozenset[str]:
        """Hosts that are known and silent."""
        return self._index.lost_hosts

    def at(self, group_id: str) -> GroupStep:
        """The step of one group, which may be new."""
        step = self._steps.get(group_id)
        if step is None:
            step = GroupStep(self, group_id, self._before.groups.get(group_id))
            self._steps[group_id] = step
        return step

    def touch(self, step: GroupStep) -> None:
        """Notes that a group has changed."""
        self._unindexed[step.group_id] = step.found
        if step.found is not None:
            self.unsettled.add(step.group_id)

    def groups(self) -> Iterator[Group]:
        """Every group as it is now, by id; a walk over all of them: for rare events alone."""
        for group_id in sorted(set(self._before.groups) | self._steps.keys()):
            found = self.at(group_id).found
            if found is not None:
                yield found

    def of_id(self, identifier: str) -> GroupStep | None:
        """The group that a request uuid, resource request or execution id belongs to."""
        group_id = self.index.by_id.get(identifier)
        return None if group_id is None else self.at(group_id)

    def with_member(self, processor_id: str) -> GroupStep | None:
        """The group of which this processor is a member, wanted running."""
        group_id = self.index.by_processor.get(processor_id)
        return None if group_id is None else self.at(group_id)

    def note_lags(self, lags: Iterable[Lag]) -> None:
        """Newer samples; of a processor that was, or is being, removed there is none."""
        members = self.index.by_processor
        fresh = {lag.processor_id: lag for lag in lags if lag.processor_id in members}
        if fresh:
            self.lags = self.lags.update(fresh)

    def forget_lag(self, processor_id: str) -> None:
        """Drops a processor's sample: it is of an incarnation that is over."""
        if processor_id in self.lags:
            self.lags = self.lags.remove(processor_id)

    def put_host(self, host: Host) -> None:
        """Adds or replaces a host."""
        self._hosts = self._hosts.insert(host.host, host)
        self._index = with_host(self._index, host)

    def knows(self, uuid: str) -> bool:
        """Whether a request was seen before: remembered, or still in flight."""
        return uuid in self._uuids or uuid in self._refused or uuid in self.index.by_id

    def remember(self, uuid: str) -> None:
        """Adds a request uuid; beyond the limit the oldest is forgotten."""
        self._uuids = self._uuids.insert(uuid, self._next_uuid)
        order = self._index.uuid_order.insert(self._next_uuid, uuid)
        self._next_uuid += 1
        while len(self._uuids) > max(0, self.limits.remembered_uuids):
            place = self._next_uuid - len(self._uuids)
            self._uuids = self._uuids.remove(order[place])
            order = order.remove(place)
        self._index = self._index._replace(uuid_order=order)

    def remember_refused(self, uuid: str) -> None:
        """The same for one that was answered without the reducer, unless it is known."""
        if self.knows(uuid):
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
        """Adds commands in order."""
        self._commands.extend(commands)

    @property
    def next_certificate(self) -> tuple[int, str, int | None]:
        """The next audit record's number, and digest and time of the one that it follows."""
        return self._certificates + 1, self._certificate_hash, self._certificate_at_ms or None

    def certify(self, record: AuditRecord) -> None:
        """Appends an audit record, made for its place in the chain, with its digest."""
        record = replace(record, digest=digest_of(record))
        self._certificates, self._certificate_hash = record.number, record.digest
        self._certificate_at_ms = record.at_ms
        self.emit(RecordCertificate(record))

    def new_request_id(self) -> str:
        """A resource request's id: never used before in the job's life."""
        number = self._next_request
        self._next_request += 1
        return f"{self.safe_job}{_REQUEST}{number:06d}"

    def execution_id(self, processor_id: str, request_id: str) -> str:
        """The incarnation that may start on this request's resource: at most one ever does.

        It follows from the request's id, so a resource that was asked for under another name of
        the job starts what was announced. A standby's `-` is written `_`: the last two `-` are
        those before processor and number, and no two jobs have one id.
        """
        job, _, number = request_id.rpartition(_REQUEST)
        return f"{job}-{_safe(processor_id).replace('-', '_')}-{number}"

    @property
    def next_epoch(self) -> int:
        """The epoch of the next incarnation."""
        return self._next_epoch

    def new_incarnation(self, processor_id: str, host: str, request_id: str) -> Incarnation:
        """The next incarnation; its epoch is above every earlier one of the job."""
        epoch = self._next_epoch
        self._next_epoch += 1
        begun = Incarnation(epoch, self.execution_id(processor_id, request_id), host, request_id)
        return journal.entered(self.hosts, begun)

    def result(self) -> JobState:
        """The state as the step has made it."""
        groups = self._before.groups
        for group_id, step in self._steps.items():
            before, after = groups.get(group_id), step.found
            if after is before:
                continue
            if after is None:
                groups = groups.remove(group_id)
            elif before != after:
                groups = groups.insert(group_id, after.evolve(sequence=after.sequence + 1))
        # All fields in their order: each step ends here, and names would cost as much again.
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
        """The commands so far, in order."""
        return tuple(self._commands)


class GroupStep:
    """One group within a step: what it is by now, and how it changes.

    There is one for each group of a `Draft`, so `group` is always the newest.
    """

    __slots__ = ("draft", "found", "group_id")

    def __init__(self, draft: Draft, group_id: str, found: Group | None) -> None:
        self.draft = draft
        self.group_id = group_id
        # None when nothing is left of the group, or it isn't there yet.
        self.found = found

    @property
    def group(self) -> Group:
        """The group as it is now."""
        assert self.found is not None, f"no group {self.group_id}"
        return self.found

    @property
    def action(self) -> Action | None:
        """The group's action as it is now; None also when nothing is left of the group."""
        return None if self.found is None else self.found.action

    @property
    def now_ms(self) -> int:
        """The time of the step."""
        return self.draft.now_ms

    @property
    def hosts(self) -> HashTrieMap[str, Host]:
        """Every known host as it is now."""
        return self.draft.hosts

    @property
    def limits(self) -> Limits:
        """The job's bounds."""
        return self.draft.limits

    def emit(self, *commands: Command) -> None:
        """Adds commands in order."""
        self.draft.emit(*commands)

    def processor(self, processor_id: str) -> Processor:
        """One processor as it is now."""
        return self.group.processors[processor_id]

    def lag(self, processor_id: str) -> Lag | None:
        """The newest sample of a standby."""
        return self.draft.lags.get(processor_id)

    def forbidden_hosts(self, processor_id: str) -> set[str]:
        """Every host that a processor of the group may not be on now."""
        lost = self.draft.lost_hosts
        return rules.forbidden_hosts(self.group, self.hosts, lost, processor_id)

    def put(self, group: Group) -> None:
        """Adds or replaces the group."""
        self.found = group
        self.draft.touch(self)

    def put_processor(self, processor: Processor) -> None:
        """Adds or replaces a processor."""
        processors = {**self.group.processors, processor.processor_id: processor}
        self.put(self.group.evolve(processors=processors))

    def change(self, processor_id: str, **changes: Any) -> None:
        """Changes fields of a processor."""
        self.put_processor(self.processor(processor_id).evolve(**changes))

    def remove_processor(self, processor_id: str) -> None:
        """Drops a processor, and the group when nothing is left of it.

        Its orphans keep how it ended last, should a later deployment have it again. Its lag is
        nobody's.
        """
        last_end = self.processor(processor_id).last_end
        orphans = _remembering(self.group.orphans, processor_id, last_end)
        self.draft.forget_lag(processor_id)
        left = {pid: p for pid, p in self.group.processors.items() if pid != processor_id}
        self._put_or_drop(self.group.evolve(processors=left, orphans=orphans))

    def add_orphan(self, orphan: Orphan) -> None:
        """Adds an orphan to the group."""
        self.put(self.group.evolve(orphans=(*self.group.orphans, orphan)))

    def put_orphan(self, orphan: Orphan) -> None:
        """Replaces the orphan that is the same incarnation."""
        execution_id = orphan.incarnation.execution_id
        others = self.group.orphans
        orphans = (orphan if o.incarnation.execution_id == execution_id else o for o in others)
        self.put(self.group.evolve(orphans=tuple(orphans)))

    def drop_orphan(self, gone: Orphan, last_end: End | None = None) -> None:
        """Drops an orphan; others of its processor remember how that ended last."""
        execution_id = gone.incarnation.execution_id
        others = (o for o in self.group.orphans if o.incarnation.execution_id != execution_id)
        orphans = _remembering(others, gone.processor_id, last_end)
        self._put_or_drop(self.group.evolve(orphans=orphans))

    def put_action(self, action: Action | None) -> None:
        """Sets or ends the group's action."""
        self._put_or_drop(self.group.evolve(action=action))

    def put_failover(self, failover: Failover | None) -> None:
        """Sets or ends the group's failover."""
        self.put(self.group.evolve(failover=failover))

    def put_queue(self, queue: tuple[PlacementAsk, ...]) -> None:
        """Replaces the group's queue."""
        self._put_or_drop(self.group.evolve(queue=queue))

    def _put_or_drop(self, group: Group) -> None:
        kept = group.processors or group.orphans or group.action or group.queue
        self.found = group if kept else None
        self.draft.touch(self)


def _remembering(
    orphans: Iterable[Orphan], processor_id: str, last_end: End | None
) -> tuple[Orphan, ...]:
    """The orphans; those of this processor know how its newest incarnation ended."""
    return tuple(
        orphan.evolve(end=ownership.newest_end(orphan.end, last_end))
        if orphan.processor_id == processor_id
        else orphan
        for orphan in orphans
    )


@cache
def _safe(name: str) -> str:
    """`name` in characters that are safe in a path and a URL."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)
