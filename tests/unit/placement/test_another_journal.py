"""An agent that registers with another journal knows nothing of what was started on those before."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.certificates import digest_of
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import Fencing, JobState, Limits
from samza_dagster.placement.verification import Rule, verify
from tests.simulation.moves import Move
from tests.unit.placement.scenes import QUICK, Scene, running

pytestmark = pytest.mark.unit

FENCED = Limits(fencing=Fencing.BROKER, host_timeout_ms=10_000)


def replace(world: Scene, how: str, host: str = "host-1") -> None:
    """Another agent takes the host's name, with an empty journal, and registers."""
    assert world.do(Move(how, (host,)))
    world.register(host)


def test_a_start_where_the_name_is_of_another_machine_says_who_was_left_behind() -> None:
    """The history passes with it, and without it is one of two on a host."""
    world = running(limits=FENCED)
    before = world.execution("0")
    replace(world, "other-machine")
    world.until_all_run()
    records = [c.record for c in world.sent(cmd.RecordCertificate)]
    place = next(n for n, r in enumerate(records) if r.left_behind)
    started = records[place]
    assert (started.kind, started.host, started.left_behind) == (
        "start",
        "host-1",
        (("0", before),),
    )
    assert verify(records).violation is None
    hidden = dataclasses.replace(started, left_behind=(), digest="")
    told = verify(
        [*records[:place], dataclasses.replace(hidden, digest=digest_of(hidden))]
    ).violation
    assert told is not None
    assert told.rule is Rule.SAME_HOST


def with_journal(state: JobState, journal: str, boot_id: str) -> JobState:
    """The state as an agent that told so much has left it."""
    group = state.groups["0"]
    active = group.processors["0"]
    assert active.incarnation is not None
    incarnation = active.incarnation.evolve(journal=journal, boot_id=boot_id)
    processors = {**group.processors, "0": active.evolve(incarnation=incarnation)}
    host = state.hosts["host-1"].evolve(journal=journal, boot_id=boot_id)
    changed: dict[str, Any] = {
        "groups": state.groups.insert("0", group.evolve(processors=processors)),
        "hosts": state.hosts.insert("host-1", host),
    }
    return JobState(**{f: changed.get(f, getattr(state, f)) for f in JobState.__slots__})


@pytest.mark.parametrize(
    ("left", "comes", "is_dead"),
    [
        (("journal-1", "boot-1"), ("journal-1", "boot-1"), True),
        (("journal-1", "boot-1"), ("journal-1", "boot-2"), True),
        (("journal-1", "boot-1"), ("journal-2", "boot-1"), False),
    ],
)
def test_what_the_journal_lacks_is_dead_only_by_the_journal_that_it_was_started_on(
    left: tuple[str, str], comes: tuple[str, str], is_dead: bool
) -> None:
    """Under another one it is an orphan, on the same boot too."""
    state = with_journal(running(limits=QUICK).state, *left)
    event = ev.HostRegistered(state.now_ms, "host-1", frozenset(), "", *comes)
    group = step(state, event).state.groups["0"]
    assert (group.orphans == ()) == is_dead
