"""Finds groups by id, host, deadline and turn, so that a step needn't walk over all of them.

All of it is derived from groups, hosts and remembered requests, and follows them exactly
(`indexing.py`). It is immutable: an older state keeps its own index.
"""

from __future__ import annotations

from typing import NamedTuple

from rpds import HashTrieMap


class Turn(NamedTuple):
    """A processor that waits to be started, in the order of their turns.

    First those with the fewest tries since they last ran, then actives, then the processor that
    has waited longest. `length` is that of its id: processor 9 comes before processor 10.
    """

    attempts: int
    standby: bool
    waiting_since_ms: int
    length: int
    group_id: str
    processor_id: str
    not_before_ms: int


class Ask(NamedTuple):
    """A queued request that could begin, in the order in which they were made."""

    timestamp_ms: int
    uuid: str
    group_id: str


class Summary(NamedTuple):
    """What the index holds of one group.

    `ask` is the first queued request that could begin, `starting` the number of processors that
    take part in `max_concurrent_starts`, `hosts` all that the group touches, `ids` the
    requests, resource requests and incarnations that are the group's, `members` its
    processors that are wanted: of each the job has one.
    """

    deadline_ms: int | None = None
    turns: tuple[Turn, ...] = ()
    ask: Ask | None = None
    starting: int = 0
    acting: bool = False
    hosts: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    members: frozenset[str] = frozenset()


class Index(NamedTuple):
    """The summaries by group, and what a step or the leader's loop looks up in them.

    `turns` and `asks` are sorted. `deadlines` has the groups that wait for one, `acting` those
    whose action counts, `unregistered` the hosts that have yet to register with this
    coordinator, with the time from which they are awaited. `uuid_order` and `refused_order` are
    `JobState.uuids` and `refused` by place.
    """

    summaries: HashTrieMap[str, Summary] = HashTrieMap()
    by_id: HashTrieMap[str, str] = HashTrieMap()
    by_processor: HashTrieMap[str, str] = HashTrieMap()
    by_host: HashTrieMap[str, frozenset[str]] = HashTrieMap()
    deadlines: HashTrieMap[str, int] = HashTrieMap()
    turns: tuple[Turn, ...] = ()
    asks: tuple[Ask, ...] = ()
    starting: int = 0
    acting: frozenset[str] = frozenset()
    lost_hosts: frozenset[str] = frozenset()
    unregistered: HashTrieMap[str, int] = HashTrieMap()
    uuid_order: HashTrieMap[int, str] = HashTrieMap()
    refused_order: HashTrieMap[int, str] = HashTrieMap()

    def groups_on(self, host: str) -> list[str]:
        """Return the groups that have a process, an orphan, a resource or a named request there."""
        return sorted(self.by_host.get(host, ()))

    def overdue(self, now_ms: int) -> list[str]:
        """Return the groups whose deadline is reached, the earliest first."""
        due = sorted((due_ms, name) for name, due_ms in self.deadlines.items() if due_ms <= now_ms)
        return [name for _, name in due]

    def next_turn(self, now_ms: int) -> Turn | None:
        """Return the first turn whose pause is over."""
        return next((turn for turn in self.turns if turn.not_before_ms <= now_ms), None)

    def next_deadline_ms(self, now_ms: int, host_timeout_ms: int) -> int | None:
        """Return when a deadline or a pause ends, or an awaited host is lost."""
        hosts = (since_ms + host_timeout_ms for since_ms in self.unregistered.values())
        pauses = (turn.not_before_ms for turn in self.turns if turn.not_before_ms > now_ms)
        return min((*self.deadlines.values(), *hosts, *pauses), default=None)


EMPTY = Index()
