"""Finds groups by id, host, deadline and turn, so that a step doesn't walk over all of them.

The index is derived from groups, hosts and remembered requests (`indexing.py`). It is immutable:
an older state keeps its own index.
"""

from __future__ import annotations

from typing import NamedTuple

from rpds import HashTrieMap


class Turn(NamedTuple):
    """A processor that waits for its start; the fields are the sort key.

    Processors with the fewest tries since they last ran come first, then actives, then the
    longest wait.
    """

    attempts: int
    standby: bool
    waiting_since_ms: int
    length: int  # the length of the id: processor 9 comes before processor 10
    group_id: str
    processor_id: str
    not_before_ms: int


class Ask(NamedTuple):
    """A queued request that could begin, sorted by the time of the request."""

    timestamp_ms: int
    uuid: str
    group_id: str


class Summary(NamedTuple):
    """The index entry of one group."""

    deadline_ms: int | None = None
    turns: tuple[Turn, ...] = ()
    ask: Ask | None = None  # the first queued request that could begin
    starting: int = 0  # the processors that count against `max_concurrent_starts`
    acting: bool = False
    hosts: frozenset[str] = frozenset()  # all hosts that the group touches
    ids: frozenset[str] = frozenset()  # the group's requests, resource requests and incarnations
    # The group's wanted processors. A processor is a member of one group only.
    members: frozenset[str] = frozenset()


class Index(NamedTuple):
    """The summaries by group, and the lookups of a step and of the leader's loop."""

    summaries: HashTrieMap[str, Summary] = HashTrieMap()
    by_id: HashTrieMap[str, str] = HashTrieMap()
    by_processor: HashTrieMap[str, str] = HashTrieMap()
    by_host: HashTrieMap[str, frozenset[str]] = HashTrieMap()
    deadlines: HashTrieMap[str, int] = HashTrieMap()  # the groups that wait for a deadline
    turns: tuple[Turn, ...] = ()  # sorted
    asks: tuple[Ask, ...] = ()  # sorted
    starting: int = 0
    # The groups with an action that counts against the limits.
    acting: frozenset[str] = frozenset()
    lost_hosts: frozenset[str] = frozenset()
    # Hosts that haven't registered with this coordinator, with the begin of the wait.
    unregistered: HashTrieMap[str, int] = HashTrieMap()
    uuid_order: HashTrieMap[int, str] = HashTrieMap()  # `JobState.uuids` by place
    refused_order: HashTrieMap[int, str] = HashTrieMap()  # `JobState.refused` by place

    def groups_on(self, host: str) -> list[str]:
        """Return the groups that have a process, an orphan, a resource or a named request there."""
        return sorted(self.by_host.get(host, ()))

    def overdue(self, now_ms: int) -> list[str]:
        """Return the groups past their deadline, the earliest first."""
        due = sorted((due_ms, name) for name, due_ms in self.deadlines.items() if due_ms <= now_ms)
        return [name for _, name in due]

    def next_turn(self, now_ms: int) -> Turn | None:
        """Return the first turn after its pause."""
        return next((turn for turn in self.turns if turn.not_before_ms <= now_ms), None)

    def next_deadline_ms(self, now_ms: int, host_timeout_ms: int) -> int | None:
        """Return when a deadline or a pause ends, or an awaited host is lost."""
        hosts = (since_ms + host_timeout_ms for since_ms in self.unregistered.values())
        pauses = (turn.not_before_ms for turn in self.turns if turn.not_before_ms > now_ms)
        return min((*self.deadlines.values(), *hosts, *pauses), default=None)


EMPTY = Index()
