"""What is explained of any destination, against the judges' reading of the rules, by lot."""

from __future__ import annotations

import pytest

from samza_dagster.model import naming
from samza_dagster.placement import explain as ex
from samza_dagster.placement import texts
from samza_dagster.placement.state import Group, JobState, Role
from tests.simulation.judges.legality import reasons
from tests.simulation.judges.standby_places import may_give_way
from tests.unit.placement.drawn import DESTINATIONS, NEW, states

pytestmark = pytest.mark.unit

DRAWN = 300


def hosts_of(state: JobState, group: Group, processor_id: str, destination: str) -> list[str]:
    """The hosts that a destination may come to."""
    processor = group.processors[processor_id]
    runs, last = processor.incarnation, processor.last_seen_host
    match destination:
        case naming.ANY_HOST:
            return sorted(state.hosts)
        case naming.LAST_SEEN | naming.FORCE_RESTART_LAST_SEEN:
            return [runs.host] if runs is not None else [last] if last is not None else []
        case _:
            return [destination]


def test_what_is_not_known_is_named_with_what_is() -> None:
    """A processor that isn't wanted isn't known either."""
    for state, group in states(DRAWN):
        known = sorted(pid for pid, p in group.processors.items() if p.wanted)
        for pid in (*group.processors, NEW):
            for destination in DESTINATIONS:
                word = destination in naming.DESTINATION_WORDS or destination in state.hosts
                told = ex.explain(state, pid, destination)
                rule = ex.PROCESSOR_KNOWN if pid not in known else ex.DESTINATION_KNOWN
                rules = [candidate.rule for candidate in told.candidates]
                assert (rules == [rule]) == (pid not in known or not word)
                assert (told.processor_id, told.destination) == (pid, destination)
                if pid not in known:
                    assert ", ".join(known) in str(told)
                elif not word:
                    assert ", ".join(sorted(state.hosts)) in str(told)


@pytest.mark.parametrize(
    ("known", "more"), [(1, ""), (40, ""), (41, " or 1 more"), (43, " or 3 more")]
)
def test_of_many_processors_forty_are_named(known: int, more: str) -> None:
    """As many as one reads."""
    names = [f"{number}-0" for number in range(known)]
    assert texts.name_one_of(names) == f"name one of {', '.join(names[:40])}{more}"


def test_each_host_is_legal_unless_a_rule_forbids_it() -> None:
    """Any host is another than where it is; a destination is legal if one of its hosts is."""
    for state, group in states(DRAWN):
        for pid, processor in group.processors.items():
            here = processor.incarnation.host if processor.incarnation is not None else None
            for destination in DESTINATIONS:
                known = destination in naming.DESTINATION_WORDS or destination in state.hosts
                if destination == naming.STANDBY or not known or not processor.wanted:
                    continue
                told = ex.explain(state, pid, destination)
                hosts = hosts_of(state, group, pid, destination)
                assert [candidate.host for candidate in told.candidates] == hosts
                for candidate in told.candidates:
                    found = {reason.rule for reason in reasons(state, group, pid, candidate.host)}
                    if destination == naming.ANY_HOST and candidate.host == here and not found:
                        found = {"another-host"}
                    assert candidate.legal == (not found), (group, pid, candidate, found)
                    assert candidate.legal or candidate.rule in found
                    assert candidate.legal or (candidate.seen and candidate.change)
                assert told.legal == any(candidate.legal for candidate in told.candidates)


def test_each_place_of_a_standby_is_legal_if_it_may_give_way() -> None:
    """Of an active with standbys; in the order of their hosts."""
    for state, group in states(DRAWN):
        standbys = [p for p in group.processors.values() if p.role is Role.STANDBY]
        for pid, processor in group.processors.items():
            if not processor.wanted:
                continue
            told = ex.explain(state, pid, naming.STANDBY)
            if processor.role is Role.STANDBY or not any(s.wanted for s in standbys):
                (candidate,) = told.candidates
                assert (told.legal, candidate.rule) == (False, ex.ACTIVE_WITH_STANDBY)
                role = "is a standby" if processor.role is Role.STANDBY else "has no standby"
                assert candidate.seen == f"{pid} {role}"
                continue
            may = [may_give_way(state, group, processor, standby) for standby in standbys]
            assert sorted(candidate.legal for candidate in told.candidates) == sorted(may)
            assert told.legal == any(may)
            hosts = [candidate.host for candidate in told.candidates]
            assert hosts == sorted(hosts)


def test_what_is_listed_is_what_is_forbidden() -> None:
    """All of it where nothing is."""
    for state, group in states(DRAWN):
        told = ex.explain(state, group.group_id, naming.ANY_HOST)
        listed = str(told).split(" | ") if told.candidates else []
        forbidden = [str(candidate) for candidate in told.candidates if not candidate.legal]
        assert listed == (forbidden or [str(candidate) for candidate in told.candidates])
