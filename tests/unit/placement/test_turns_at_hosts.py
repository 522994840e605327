"""How many actions may touch a host: what each leaves to the others, and which of them wait."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rpds import HashTrieMap

from samza_dagster.model import naming
from samza_dagster.placement import host_limit
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.indexing import rebuilt
from samza_dagster.placement.state import (
    Action,
    Fallback,
    Group,
    Host,
    JobState,
    Limits,
    Move,
    PlacementAsk,
    ResourceRequest,
    Restart,
    SpinUp,
    StandbyPlace,
    Start,
    StopStandby,
    Swap,
)
from tests.simulation.judges.legality import reserved_by
from tests.simulation.judges.turns import touched_by

pytestmark = pytest.mark.unit

HOSTS = ("host-1", "host-2", "host-3")
UNKNOWN = "host-9"
"""Named by a request, or left behind by a deployment; the job doesn't know it."""

names = st.sampled_from((*HOSTS, UNKNOWN))
maybe = st.none() | names
sets = st.frozensets(names)


def request(host: str | None, excluded: frozenset[str], got: str | None) -> ResourceRequest:
    return ResourceRequest("r", host, tuple(sorted(excluded)), 9, got)


def asks(destination: str) -> PlacementAsk:
    return PlacementAsk("u", "run", "0", destination, 0)


destinations = names | st.sampled_from((naming.ANY_HOST, naming.LAST_SEEN, ""))
about = st.builds(asks, destinations)
requests = st.builds(request, maybe, sets, maybe)
places = st.builds(StandbyPlace, st.just("0-0"), names)
actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(Swap, about, names, places, st.none() | requests),
    st.builds(Move, about, names, requests, st.none() | places, maybe),
    st.builds(Restart, about, names),
    st.builds(Start, about, maybe, st.none() | places, maybe),
    st.builds(Fallback, about, maybe, st.booleans()),
    st.builds(SpinUp, about, st.just("0-1"), st.none() | requests, maybe),
    st.builds(StopStandby, about, maybe, st.booleans()),
)


@dataclass(frozen=True)
class Turns:
    """The job's actions, each in a group of its own, and a limit per host."""

    actions: list[Action]
    limit: int

    def draft(self) -> Draft:
        groups = {str(n): Group(str(n), {}, action) for n, action in enumerate(self.actions)}
        hosts = {name: Host(name) for name in HOSTS}
        limits = Limits(max_actions_per_host=self.limit)
        return Draft(
            rebuilt(
                JobState(
                    "demo", limits=limits, groups=HashTrieMap(groups), hosts=HashTrieMap(hosts)
                )
            ),
            0,
        )

    def acting(self, but: int = -1) -> list[Action]:
        """Those that aren't on their way back."""
        others = [a for n, a in enumerate(self.actions) if n != but]
        return [a for a in others if not isinstance(a, Fallback)]

    def touching(self, host: str, but: int = -1) -> int:
        """How many leave, take, name or have chosen it."""
        return sum(host in touched_by(Group("", {}, a)) for a in self.acting(but))

    def choosing(self) -> list[ResourceRequest]:
        """What is asked for anywhere, and not given yet."""
        asked = [reserved_by(a) for a in self.acting()]
        return [r for r in asked if r and (r.host, r.allocated_host) == (None, None)]

    def left(self, excluded: frozenset[str], taken: frozenset[str] = frozenset()) -> int:
        """Turns that a choice has; one is taken at each of these hosts."""
        free = [h for h in HOSTS for _ in range(self.limit - self.touching(h))]
        return sum(h not in excluded for h in free) - len((taken & set(HOSTS)) - excluded)


turns = st.builds(Turns, st.lists(actions, max_size=4), st.integers(1, 3))


@given(turns, sets, st.none() | sets)
def test_a_request_waits_where_it_would_leave_too_few_turns(
    turns: Turns, touched: frozenset[str], excluded: frozenset[str] | None
) -> None:
    """For a host that it touches, for its own choice, or for those that are yet to choose."""
    full = [host for host in sorted(touched) if turns.touching(host) >= turns.limit]
    open_ = turns.choosing()
    chooses = excluded is not None and not excluded >= set(HOSTS)
    crowded = chooses and excluded is not None and turns.left(excluded) <= len(open_)
    robs = any(
        turns.left(frozenset(r.excluded_hosts)) >= len(open_)
        and turns.left(frozenset(r.excluded_hosts), touched) - chooses < len(open_)
        for r in open_
    )
    why = host_limit.reason_to_wait(
        turns.draft(), set(touched), None if excluded is None else set(excluded)
    )
    assert (why is not None) == bool(full or crowded or robs)
    if why is not None:
        assert f"{turns.limit} actions touch " in why
        words = (
            full[0] if full else "each host that it could go to" if crowded else "a host at most"
        )
        assert words in why


@given(turns, st.integers(0, 3), maybe, names)
def test_a_chosen_host_is_held_against_the_other_groups_alone(
    turns: Turns, group: int, asked: str | None, host: str
) -> None:
    """One that was asked for by name had its turn from the beginning."""
    draft = turns.draft()
    full = {name for name in (*HOSTS, UNKNOWN) if turns.touching(name, group) >= turns.limit}
    assert host_limit.full_hosts(draft.at(str(group))) == full
    broken = host_limit.full_violation(
        draft.at(str(group)), request(asked, frozenset(), None), host
    )
    assert (broken is not None) == (asked is None and host in full)
    assert broken is None or broken.host == host
