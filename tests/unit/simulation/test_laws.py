"""No law is blind: a heart whose steps are doctored breaks it, and is found by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.certificates import digest_of
from samza_dagster.placement.codec import group_from_json
from samza_dagster.placement.explain import Explanation, explain
from samza_dagster.placement.index_draft import rebuilt
from samza_dagster.placement.reducer import Step, step
from samza_dagster.placement.state import Group, JobState, Phase, Processor
from samza_dagster.simulation import audit_trail, durability, explaining
from samza_dagster.simulation.chronicle import Chronicle
from samza_dagster.simulation.driver import simulate
from samza_dagster.simulation.script import play
from samza_dagster.simulation.setup import Setup
from samza_dagster.simulation.starts import judge_certificates
from samza_dagster.simulation.taken import Taken
from samza_dagster.simulation.violation import JUDGES, LAWS, InvariantViolated

pytestmark = pytest.mark.unit

Doctor = Callable[[ev.Event, Step], Step]


def without(kind: type, which: Callable[[Any], bool] = lambda _: True) -> Doctor:
    """The heart forgets commands of a kind."""
    return lambda _, taken: replace(
        taken,
        commands=tuple(c for c in taken.commands if not (isinstance(c, kind) and which(c))),
    )


def said(kind: type, **changes: object) -> Doctor:
    """The heart says something else."""
    return lambda _, taken: replace(
        taken,
        commands=tuple(
            replace(c, **changes) if isinstance(c, kind) else c  # type: ignore[type-var]
            for c in taken.commands
        ),
    )


def processors(change: Callable[[Processor], Processor]) -> Doctor:
    """The heart keeps processors otherwise, in the groups that it changes."""

    def doctor(_: ev.Event, taken: Step) -> Step:
        state = taken.state
        groups = state.groups
        for name, group in state.groups.items():
            members = {pid: change(p) for pid, p in group.processors.items()}
            if members != dict(group.processors):
                groups = groups.set(name, replace(group, processors=members))
        return replace(taken, state=rebuilt(replace(state, groups=groups)))

    return doctor


def _one_turn(event: ev.Event, taken: Step) -> Step:
    """A deployment lets one of them start, also where more may."""
    requests = [c for c in taken.commands if isinstance(c, cmd.RequestResource)]
    if not isinstance(event, ev.JobDeployed) or len(requests) < 2:
        return taken
    first, groups = requests[0], taken.state.groups
    for name, group in groups.items():
        members = {
            pid: p if pid == first.processor_id else replace(p, phase=Phase.WAITING, request=None)
            for pid, p in group.processors.items()
        }
        groups = groups.set(name, replace(group, processors=members))
    counter = next(c for c in taken.commands if isinstance(c, cmd.CountMetric))
    state = replace(taken.state, groups=groups, next_request=2)
    return Step(rebuilt(state), (first, counter))


def _late(processor: Processor) -> Processor:
    if processor.phase is not Phase.STARTING or processor.deadline_ms is None:
        return processor
    return replace(processor, deadline_ms=processor.deadline_ms // 10 * 10 + 7)


def _unlikely(processor: Processor) -> Processor:
    if processor.phase is not Phase.RUNNING:
        return processor
    return replace(processor, last_seen_host="host-9")


DOCTORS: list[tuple[str, str, Doctor]] = [
    ("a resource isn't given back", "books-balance", without(cmd.ReleaseResource)),
    ("a dead one is kept by its host", "books-balance", without(cmd.ForgetContainer)),
    ("a resource of another size", "books-balance", said(cmd.RequestResource, memory_mb=1)),
    ("an expiry of its own", "books-balance", said(cmd.RequestResource, expires_in_ms=77)),
    ("a failure isn't counted", "tallies", without(cmd.CountMetric)),
    ("a start has longer", "on-time", processors(_late)),
    ("it was last seen elsewhere", "well-formed", processors(_unlikely)),
    ("a turn that nobody takes", "fair-turns", _one_turn),
    ("words that aren't so", "true-words", said(cmd.WriteResponse, message="done")),
    ("an answer of no time", "true-words", said(cmd.WriteResponse, timestamp_ms=1)),
]


@pytest.mark.parametrize(("law", "doctor"), [d[1:] for d in DOCTORS], ids=[d[0] for d in DOCTORS])
def test_a_doctored_heart_is_found(law: str, doctor: Doctor) -> None:
    """Within a few short histories, by the law that it breaks."""

    def heart(state: JobState, event: ev.Event) -> Step:
        return doctor(event, step(state, event))

    found = ""
    for seed in range(1, 30):
        violation = simulate(seed, 60, heart=heart).violation
        if violation is not None:
            found = violation.invariant
            break
    assert found == law


def test_a_certificate_that_gives_another_reason_is_found() -> None:
    """Its digest fits: only what it says is wrong."""
    world = Setup(3, 4, "0,0-0").build()
    while not world.committed.certificates:
        before = world.committed
        kept: list[tuple[ev.Event, Step]] = []
        world.heard = lambda event, taken, kept=kept: kept.append((event, taken))
        assert world.do(world.moves()[0])
    event, taken = kept[-1]
    changed = [
        (before.groups.get(name), group)
        for name, group in taken.state.groups.items()
        if before.groups.get(name) is not group
    ]
    judge_certificates(Chronicle(), Taken(before, event, taken.state, taken.commands, changed))
    doctored = tuple(
        cmd.RecordCertificate(replace(false, digest=digest_of(false)))
        if isinstance(c, cmd.RecordCertificate) and (false := replace(c.record, why="because"))
        else c
        for c in taken.commands
    )
    with pytest.raises(InvariantViolated, match=r"true-certificates: 'because' instead of"):
        judge_certificates(Chronicle(), Taken(before, event, taken.state, doctored, changed))


def test_an_explanation_that_calls_a_taken_host_legal_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Judged by a second reading of the rules."""
    world = Setup(3, 4, "0,0-0").build()
    world.until(lambda: all(p is Phase.RUNNING for p in world.phases().values()))
    state, group = world.committed, world.committed.groups["0"]
    host = world.where("0-0")
    assert host is not None
    explaining.judge_explanation(state, group, "0", host)

    def lenient(state: JobState, processor_id: str, destination: str) -> Explanation:
        told = explain(state, processor_id, destination)
        legal = tuple(replace(c, legal=True, rule="", seen="", change="") for c in told.candidates)
        return replace(told, legal=True, candidates=legal)

    monkeypatch.setattr(explaining, "explain", lenient)
    with pytest.raises(InvariantViolated, match=r"explains-itself.*0-0"):
        explaining.judge_explanation(state, group, "0", host)


def test_a_record_that_loses_a_field_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A successor would go by another state than the one that was committed."""
    world = Setup(3, 4, "0,0-0").build()
    assert durability.passed_on(world.committed).groups == world.committed.groups

    def lossy(value: dict[str, Any]) -> Group:
        return replace(group_from_json(value), sequence=0)

    monkeypatch.setattr(durability, "group_from_json", lossy)
    with pytest.raises(InvariantViolated, match="records-restore"):
        durability.passed_on(world.committed)


def test_every_forgery_of_a_true_trail_is_found() -> None:
    """And the true one is accepted, whole and cut by age."""
    history = simulate(3, 120)
    assert history.violation is None
    played = play(history.script.setup, history.script.moves)
    records = [c.record for c in played.world.brokers.audit]
    audit_trail.judge_trail(records, played.world.committed)
    assert audit_trail.judge_tampering(records[:20]) > 100
    with pytest.raises(InvariantViolated, match="audit-verifies"):
        audit_trail.judge_trail(records[:-1], played.world.committed)


def test_the_laws_are_named_once() -> None:
    """Beside the invariants, each by a name of its own."""
    assert len(set(JUDGES)) == len(JUDGES)
    assert {law for _, law, _ in DOCTORS} < set(LAWS)
