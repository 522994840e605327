"""An agent that registers with other books knows nothing of what was started on those before."""

from __future__ import annotations

from typing import Any

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement import rules
from samza_dagster.placement.audit_form import Rule
from samza_dagster.placement.certificates import digest_of
from samza_dagster.placement.explain import explain
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import AskKind, Ended, Fencing, JobState, Limits, Phase
from samza_dagster.placement.verification import verify
from samza_dagster.simulation.hosts import Trouble
from samza_dagster.simulation.moves import Move
from tests.unit.placement.scenes import QUICK, Scene, ask, own, running

pytestmark = pytest.mark.unit

FENCED = Limits(fencing=Fencing.BROKER, host_timeout_ms=10_000)


def replace(world: Scene, how: str, host: str = "host-1") -> None:
    """Another agent takes the host's name, with empty books, and registers."""
    assert world.do(Move(how, (host,)))
    world.register(host)


def test_an_agent_that_never_knew_it_cant_answer_its_stop() -> None:
    """It was stopping when the machine changed, so the stop reaches the new one: no record."""
    world = running(limits=QUICK)
    before = world.execution("0")
    world.trouble("host-1", Trouble.STUBBORN)
    world.submit(own(AskKind.FAIL_OVER, "0", uuid="u1"))
    world.until_phase("0", Phase.STOPPING)
    replace(world, "other-machine")
    answer = ev.ContainerStopped(world.now_ms, before, "host-1", None)
    taken = step(world.state, answer)
    assert taken.state.groups == world.state.groups
    assert taken.commands == ()


def test_the_machine_that_comes_back_under_its_name_tells_what_became_of_its_own() -> None:
    """Its books have it, so it is known there again; the other's is an orphan now."""
    world = running(limits=QUICK)
    before = world.execution("0")
    replace(world, "other-machine")
    first, [orphan] = world.state.hosts["host-1"], world.group().orphans
    left = orphan.incarnation
    back = ev.HostRegistered(
        world.now_ms, "host-1", frozenset({before}), "", left.books, left.boot_id
    )
    taken = step(world.state, back)
    assert taken.state.groups["0"].orphans == ()
    assert taken.state.groups["0"].processors["0"].incarnation == left
    assert taken.state.hosts["host-1"].books != first.books
    dead = ev.ContainerStopped(world.now_ms, before, "host-1", 143)
    assert cmd.ForgetContainer(before, "host-1") in step(taken.state, dead).commands


def test_a_start_told_again_after_a_reboot_is_of_that_boot() -> None:
    """Its process lives where only the directory was lost since: on the machine of that name."""
    world = running(limits=FENCED)
    world.submit(ask("0", "host-3"))
    world.until_phase("0", Phase.STARTING)
    sent = world.execution("0")
    now_ms, known = world.now_ms, world.state.hosts["host-3"]
    state = step(
        world.state,
        ev.HostRegistered(now_ms, "host-3", frozenset(), "", known.books, "boot-after"),
    )
    assert [c for c in state.commands if isinstance(c, cmd.StartContainer)]
    emptied = ev.HostRegistered(now_ms, "host-3", frozenset(), "", "books-after", "boot-after")
    state = step(state.state, emptied)
    fenced = step(state.state, ev.PrincipalFenced(now_ms, sent)).state
    [orphan] = fenced.groups["0"].orphans
    assert (orphan.incarnation.execution_id, orphan.ended) == (sent, Ended.FENCED)
    [candidate] = explain(fenced, "0-0", "host-3").candidates
    assert candidate.rule == rules.NOT_DEAD


def test_a_start_told_again_stands_in_the_books_that_it_was_told_to() -> None:
    """One that was begun before its host said whose records it goes by."""
    world = running(limits=FENCED)
    world.submit(ask("0", "host-3"))
    world.until_phase("0", Phase.STARTING)
    sent, now_ms = world.execution("0"), world.now_ms
    active = world.group().processors["0"]
    assert active.incarnation is not None
    nameless = active.evolve(incarnation=active.incarnation.evolve(books="", boot_id=""))
    group = world.group().evolve(processors={**world.group().processors, "0": nameless})
    fields = {name: getattr(world.state, name) for name in JobState.__slots__}
    state = JobState(**{**fields, "groups": world.state.groups.set("0", group)})
    for comes in (("books-1", "boot-1"), ("books-2", "boot-2")):
        taken = step(state, ev.HostRegistered(now_ms, "host-3", frozenset(), "", *comes))
        state = taken.state
    assert not [c for c in taken.commands if isinstance(c, cmd.StartContainer)]
    assert [g.incarnation.execution_id for g in state.groups["0"].orphans] == [sent]


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
    hidden = started.evolve(left_behind=(), digest="")
    told = verify([*records[:place], hidden.evolve(digest=digest_of(hidden))]).violation
    assert told is not None
    assert told.rule is Rule.SAME_HOST


def test_the_machine_that_was_left_holds_its_name_again_once_it_is_back() -> None:
    """Its books know the orphan: it is stopped there, and its death ends it."""
    world = running(limits=FENCED)
    before = world.execution("0")
    replace(world, "other-machine")
    world.until_all_run()
    [orphan] = world.group().orphans
    was = orphan.incarnation
    back = ev.HostRegistered(
        world.now_ms, "host-1", frozenset({before}), "", was.books, was.boot_id
    )
    taken = step(world.state, back)
    assert [c.execution_id for c in taken.commands if isinstance(c, cmd.StopContainer)] == [before]
    [candidate] = explain(taken.state, "0-0", "host-1").candidates
    assert candidate.rule == rules.NOT_DEAD
    seen = step(taken.state, ev.ContainerStopped(world.now_ms, before, "host-1", 143))
    assert cmd.ForgetContainer(before, "host-1") in seen.commands
    left = {g.incarnation.execution_id for g in seen.state.groups["0"].orphans}
    assert before not in left


# -- agents of the release before, which tell no id ---------------------------------------


def with_books(state: JobState, books: str, boot_id: str) -> JobState:
    """The state as an agent that told so much has left it."""
    group = state.groups["0"]
    active = group.processors["0"]
    assert active.incarnation is not None
    incarnation = active.incarnation.evolve(books=books, boot_id=boot_id)
    processors = {**group.processors, "0": active.evolve(incarnation=incarnation)}
    host = state.hosts["host-1"].evolve(books=books, boot_id=boot_id)
    changed: dict[str, Any] = {
        "groups": state.groups.set("0", group.evolve(processors=processors)),
        "hosts": state.hosts.set("host-1", host),
    }
    return JobState(**{f: changed.get(f, getattr(state, f)) for f in JobState.__slots__})


@pytest.mark.parametrize(
    ("left", "comes", "is_dead"),
    [
        (("", ""), ("", "boot-1"), True),  # a record of an older release says nothing
        (("", "boot-1"), ("", "boot-1"), True),
        (("", "boot-1"), ("", "boot-2"), False),
        (("", "boot-1"), ("books-1", "boot-1"), True),
        (("", "boot-1"), ("books-1", "boot-2"), False),
        (("books-1", "boot-1"), ("", "boot-1"), False),
        (("books-1", "boot-1"), ("books-1", "boot-2"), True),
        (("books-1", "boot-1"), ("books-2", "boot-1"), False),
    ],
)
def test_an_agent_without_an_id_is_told_by_the_boot_of_its_machine(
    left: tuple[str, str], comes: tuple[str, str], is_dead: bool
) -> None:
    """What it lacks is dead if nothing speaks against that; else it is an orphan."""
    state = with_books(running(limits=QUICK).state, *left)
    event = ev.HostRegistered(state.now_ms, "host-1", frozenset(), "", *comes)
    group = step(state, event).state.groups["0"]
    assert (group.orphans == ()) == is_dead


def test_an_agent_that_learns_to_tell_its_id_keeps_its_containers() -> None:
    """The next release's agent on the same directory: what it lists stands on its books now."""
    state = with_books(running(limits=QUICK).state, "", "boot-1")
    active = state.groups["0"].processors["0"].incarnation
    assert active is not None
    listed = frozenset({active.execution_id})
    for comes in (("books-1", "boot-1"), ("books-2", "boot-1")):
        taken = step(state, ev.HostRegistered(state.now_ms, "host-1", listed, "", *comes))
        after = taken.state.groups["0"].processors["0"]
        assert after.phase is Phase.RUNNING
        assert after.incarnation == active.evolve(books=comes[0], boot_id=comes[1])
    again = step(taken.state, ev.HostRegistered(state.now_ms, "host-1", listed, "", *comes))
    assert again.state.groups == taken.state.groups, "said again, it changes nothing"
