"""The index under change: groups that a step touched are summed up again when it is read."""

from __future__ import annotations

from typing import Any

from immutables import Map

from samza_dagster.placement.index import NOTHING, Index, Summary, pop, push
from samza_dagster.placement.state import Group, Host, JobState
from samza_dagster.placement.summaries import summarise

GROUP, HOST = 0, 1


class IndexDraft:
    """An `Index` that follows the groups of one step."""

    def __init__(self, index: Index) -> None:
        # What each group is now; None when it is gone.
        self.touched: dict[str, Group | None] = {}
        # In one go: a field of a NamedTuple read by its name costs three times as much.
        (
            self.deadlines,
            self.turns,
            self.pauses,
            self.asks,
            self.starting,
            self.acting,
            self.by_host,
            self.by_id,
            self.summaries,
            self.uuid_order,
            self.lost_hosts,
            self.refused_order,
            self.by_processor,
        ) = index

    def refresh(self) -> None:
        """Takes up what was touched since."""
        if not self.touched:
            return
        touched, self.touched = self.touched, {}
        for group_id, group in touched.items():
            old = self.summaries.get(group_id, NOTHING)
            new = NOTHING if group is None else summarise(group)
            if new is not NOTHING and new == old:
                continue
            self._replace(group_id, old, new)
            if group is None:
                if group_id in self.summaries:
                    self.summaries = self.summaries.delete(group_id)
            else:
                self.summaries = self.summaries.set(group_id, new)

    def groups_on(self, host: str) -> tuple[str, ...]:
        """Groups that have a process, an orphan, a resource or a named request there."""
        self.refresh()
        return tuple(sorted(self.by_host.get(host, ())))

    def put_host(self, host: Host, timeout_ms: int) -> None:
        """A host that is lost or not, and that must register within `timeout_ms` if it hasn't."""
        if not host.alive:
            self.lost_hosts = self.lost_hosts.set(host.host, None)
            return
        if host.host in self.lost_hosts:
            self.lost_hosts = self.lost_hosts.delete(host.host)
        if not host.registered:
            self.deadlines = push(
                self.deadlines, (host.silent_since_ms + timeout_ms, HOST, host.host)
            )

    def take_overdue(self, now_ms: int) -> tuple[list[str], list[str]]:
        """Groups and hosts whose deadline is reached; a group is due anew unless it changes."""
        self.refresh()
        groups: list[str] = []
        hosts: list[str] = []
        while self.deadlines is not None and self.deadlines.entry[0] <= now_ms:
            due_ms, kind, name = self.deadlines.entry
            self.deadlines = pop(self.deadlines)
            if kind == HOST:
                hosts.append(name)
            elif self._deadline_of(name) == due_ms and name not in groups:
                groups.append(name)
        return groups, hosts

    def keep_deadline(self, group_id: str) -> None:
        """Puts a group's deadline back that `take_overdue` took and nothing changed."""
        self.refresh()
        due_ms = self._deadline_of(group_id)
        if due_ms is not None:
            self.deadlines = push(self.deadlines, (due_ms, GROUP, group_id))

    def anyone_waits(self, now_ms: int) -> bool:
        """Whether a request may begin or somebody's turn to start may have come."""
        self.refresh()
        pauses = self.pauses
        over = pauses is not None and pauses.entry[0] <= now_ms
        return over or self.asks is not None or self.turns is not None

    def next_turn(self, now_ms: int) -> tuple[str, str] | None:
        """Takes the (group, processor) whose turn to start it is; None when nobody waits."""
        self._end_pauses(now_ms)
        while self.turns is not None:
            *turn, not_before_ms = self.turns.entry
            self.turns = pop(self.turns)
            if self._waits((not_before_ms, *turn)):
                return turn[-2], turn[-1]
        return None

    def next_ask(self) -> tuple[int, str, str] | None:
        """Takes the (timestamp, uuid, group) of the oldest request that may begin."""
        self.refresh()
        while self.asks is not None:
            entry: Any = self.asks.entry
            self.asks = pop(self.asks)
            if self.summaries.get(entry[2], NOTHING).ask == entry:
                return entry
        return None

    def put_ask_back(self, entry: tuple[int, str, str]) -> None:
        """An ask that was taken and can't begin yet."""
        self.asks = push(self.asks, entry)

    def result(self, now_ms: int) -> Index:
        """The index for the state that the step ends in."""
        self._end_pauses(now_ms)
        while self.deadlines is not None:
            due_ms, kind, name = self.deadlines.entry
            if kind == HOST or self._deadline_of(name) == due_ms:
                break
            self.deadlines = pop(self.deadlines)
        while self.pauses is not None and not self._waits(self.pauses.entry):
            self.pauses = pop(self.pauses)
        return Index(
            self.deadlines,
            self.turns,
            self.pauses,
            self.asks,
            self.starting,
            self.acting,
            self.by_host,
            self.by_id,
            self.summaries,
            self.uuid_order,
            self.lost_hosts,
            self.refused_order,
            self.by_processor,
        )

    def _end_pauses(self, now_ms: int) -> None:
        """Whose pause is over stands in line; so no deadline lies behind."""
        self.refresh()
        while self.pauses is not None and self.pauses.entry[0] <= now_ms:
            entry = self.pauses.entry
            self.pauses = pop(self.pauses)
            if self._waits(entry):
                self.turns = push(self.turns, (*entry[1:], entry[0]))

    def _deadline_of(self, group_id: str) -> int | None:
        return self.summaries.get(group_id, NOTHING).deadline_ms

    def _waits(self, entry: tuple[Any, ...]) -> bool:
        return entry in self.summaries.get(entry[-2], NOTHING).pauses

    def _replace(self, group_id: str, old: Summary, new: Summary) -> None:
        was_due_ms, old_pauses, old_ask, were_starting, was_acting, old_hosts, old_ids, were = old
        due_ms, pauses, ask, starting, acting, hosts, ids, members = new
        if due_ms is not None and due_ms != was_due_ms:
            self.deadlines = push(self.deadlines, (due_ms, GROUP, group_id))
        for entry in pauses:
            if entry not in old_pauses:
                self.pauses = push(self.pauses, entry)
        if ask is not None and ask != old_ask:
            self.asks = push(self.asks, ask)
        self.starting += starting - were_starting
        if acting and not was_acting:
            self.acting = self.acting.set(group_id, None)
        elif was_acting and not acting:
            self.acting = self.acting.delete(group_id)
        if hosts != old_hosts:
            self._move_hosts(group_id, old_hosts, hosts)
        if ids != old_ids:
            self.by_id = _moved(self.by_id, group_id, old_ids, ids)
        if members != were:
            self.by_processor = _moved(
                self.by_processor, group_id, frozenset(were), frozenset(members)
            )

    def _move_hosts(self, group_id: str, old: frozenset[str], new: frozenset[str]) -> None:
        for host in old - new:
            left = self.by_host[host].delete(group_id)
            self.by_host = self.by_host.set(host, left) if left else self.by_host.delete(host)
        for host in new - old:
            there = self.by_host.get(host) or Map[str, None]()
            self.by_host = self.by_host.set(host, there.set(group_id, None))


def _moved(
    owners: Map[str, str], group_id: str, old: frozenset[str], new: frozenset[str]
) -> Map[str, str]:
    """Name → group, once the names of this group have changed; another may have taken one over."""
    changed = owners.mutate()
    for name in old - new:
        if changed[name] == group_id:
            del changed[name]
    for name in new - old:
        changed[name] = group_id
    return changed.finish()


def rebuilt(state: JobState) -> JobState:
    """The state with its index, for groups, hosts and uuids that were read back."""
    draft = IndexDraft(Index())
    for group_id, group in state.groups.items():
        draft.touched[group_id] = group
    for host in state.hosts.values():
        draft.put_host(host, state.limits.host_timeout_ms)
    draft.uuid_order = Map({place: uuid for uuid, place in state.uuids.items()})
    draft.refused_order = Map({place: uuid for uuid, place in state.refused.items()})
    return state.evolve(index=draft.result(state.now_ms))
