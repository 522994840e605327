"""No law is blind: a heart whose steps are doctored breaks it, and is found by its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from immutables import Map

from samza_dagster.placement import audit_rules
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.certificates import AuditRecord, digest_of
from samza_dagster.placement.codec import group_from_json
from samza_dagster.placement.explain import Explanation, explain
from samza_dagster.placement.index import Node
from samza_dagster.placement.index_draft import rebuilt
from samza_dagster.placement.reducer import Step, step
from samza_dagster.placement.state import (
    Action,
    AskKind,
    Ghost,
    Group,
    Host,
    JobState,
    Phase,
    PlacementAsk,
    Processor,
    ResourceRequest,
    Role,
    Stage,
)
from samza_dagster.simulation.driver import simulate
from samza_dagster.simulation.judges import audit_trail, durability, explaining
from samza_dagster.simulation.judges.arrivals import judge_arrivals, judge_same_without_index
from samza_dagster.simulation.judges.chronicle import Chronicle
from samza_dagster.simulation.judges.rungs import judge_places
from samza_dagster.simulation.judges.starts import judge_certificates
from samza_dagster.simulation.judges.taken import Taken
from samza_dagster.simulation.judges.violation import JUDGES, LAWS, InvariantViolated
from samza_dagster.simulation.script import play
from samza_dagster.simulation.setup import Setup
from tests.unit.simulation.histories import incarnation, running

pytestmark = pytest.mark.unit

MOVES = (9, 20, 31, 42, 53, 64)
"""Seeds of that temper."""

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


def _urgent(urgent: bool) -> Callable[[Processor], Processor]:
    """Every active's own host is asked once, or none is."""

    def change(processor: Processor) -> Processor:
        request = processor.request
        if request is None or request.host is None or processor.role is not Role.ACTIVE:
            return processor
        return replace(processor, request=replace(request, urgent=urgent))

    return change


DOCTORS: list[tuple[str, str, Doctor]] = [
    ("a resource isn't given back", "books-balance", without(cmd.ReleaseResource)),
    ("a dead one is kept by its host", "books-balance", without(cmd.ForgetContainer)),
    ("a resource of another size", "books-balance", said(cmd.RequestResource, memory_mb=1)),
    ("an expiry of its own", "books-balance", said(cmd.RequestResource, expires_in_ms=77)),
    ("a process made ready for nobody", "books-balance", said(cmd.RequestResource, ahead=True)),
    ("a failure isn't counted", "tallies", without(cmd.CountMetric)),
    ("a start has longer", "on-time", processors(_late)),
    ("it was last seen elsewhere", "well-formed", processors(_unlikely)),
    ("its own host is waited for", "right-place", processors(_urgent(False))),
    ("nobody else could take over", "right-place", processors(_urgent(True))),
    ("a turn that nobody takes", "fair-turns", _one_turn),
    ("words that aren't so", "true-words", said(cmd.WriteResponse, message="done")),
    ("an answer of no time", "true-words", said(cmd.WriteResponse, timestamp_ms=1)),
    ("an action that stands elsewhere", "true-words", said(cmd.WriteResponse, stage="held")),
    ("a start of another", "true-words", said(cmd.WriteResponse, started="7")),
    ("a start elsewhere", "true-words", said(cmd.WriteResponse, host="host-9")),
    ("a stop of nobody", "true-words", said(cmd.WriteResponse, stopped=())),
    ("a stop of one that runs on", "true-words", said(cmd.WriteResponse, stopped=("0",))),
    ("an answer about another", "true-words", said(cmd.WriteResponse, refers_to="u9")),
]


@pytest.mark.parametrize(("law", "doctor"), [d[1:] for d in DOCTORS], ids=[d[0] for d in DOCTORS])
def test_a_doctored_heart_is_found(law: str, doctor: Doctor) -> None:
    """Within a few short histories, by the law that it breaks."""

    def heart(state: JobState, event: ev.Event) -> Step:
        return doctor(event, step(state, event))

    found = ""
    for seed in range(1, 90):
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


def test_a_reservation_that_stays_confirmed_while_its_host_begins_anew_is_found() -> None:
    """The agent may have lost it: it counts again once the cluster says so."""
    request = ResourceRequest("r-1", "host-1", (), 9_000, allocated_host="host-1")
    ask = PlacementAsk("u1", "run-1", "0", "host-1", 1, hold=True)
    group = Group("0", {}, Action(ask, Stage.HELD, "host-2", request))
    state = JobState("demo", "run-1", Map({"0": group}), Map({"host-1": Host("host-1")}))
    event = ev.HostRegistered(0, "host-1", frozenset())
    again = (cmd.RequestResource("r-1", "0", "host-1", (), 384, 1, 8_000),)

    def taken(reservation: ResourceRequest) -> Taken:
        assert group.action is not None
        after = replace(group, action=replace(group.action, reservation=reservation))
        now = replace(state, groups=Map({"0": after}))
        return Taken(state, event, now, again, [(group, after)])

    judge_arrivals(Chronicle(), taken(replace(request, confirmed=False)))
    with pytest.raises(InvariantViolated, match="is confirmed, and host-1 began anew"):
        judge_arrivals(Chronicle(), taken(request))


def test_a_place_that_was_held_when_it_was_excluded_is_no_fault() -> None:
    """The standby's turn came first; the active's, in the same step, took that from an action."""
    ask = PlacementAsk("u1", "run-1", "0-1", "host-3", 1)
    request = ResourceRequest("r-1", "host-3", (), 9_000)
    active = Processor("0", Role.ACTIVE, Phase.WAITING, last_seen_host="host-2", attempts=1)
    first = Processor("0-0", Role.STANDBY, Phase.WAITING)
    group = Group(
        "0",
        {"0": active, "0-0": first, "0-1": running("0-1", 1, "host-2")},
        Action(ask, Stage.RESERVING, "host-2", request),
    )
    hosts = Map({name: Host(name) for name in ("host-1", "host-2", "host-3")})
    state = rebuilt(JobState("demo", "run-1", Map({"0": group}), hosts))
    event = ev.TimePassed(5)
    result = step(state, event)
    after = result.state.groups["0"]
    assert after.failover is not None
    assert after.action is None

    def judged(excluded: tuple[str, ...]) -> None:
        asked = after.processors["0-0"]
        assert asked.request is not None
        changed = replace(asked, request=replace(asked.request, excluded_hosts=excluded))
        now = replace(after, processors={**after.processors, "0-0": changed})
        state_now = replace(result.state, groups=Map({"0": now}))
        judge_places(Chronicle(), Taken(state, event, state_now, result.commands, [(group, now)]))

    judged(("host-2", "host-3"))
    for wrong in (("host-2",), ("host-1", "host-2", "host-3")):
        with pytest.raises(InvariantViolated, match="by the rules"):
            judged(wrong)


def test_a_start_names_the_standbys_that_were_there_when_it_began() -> None:
    """The last of them was removed after it, in the same step."""
    ask = PlacementAsk("u1", "run-1", "0-0", "", 1, kind=AskKind.STOP_STANDBY, own=True)
    held = ResourceRequest("r-1", None, (), 9_000, allocated_host="host-3")
    ghost = Ghost("0", incarnation("0", 1, "host-1"), 0, 5, ran=True)
    active = Processor("0", Role.ACTIVE, Phase.RESERVED, request=held, last_seen_host="host-1")
    standby = Processor("0-0", Role.STANDBY, Phase.WAITING, not_before_ms=9_000)
    group = Group("0", {"0": active, "0-0": standby}, queue=(ask,), ghosts=(ghost,))
    hosts = Map({"host-1": Host("host-1", alive=False), "host-3": Host("host-3")})
    state = rebuilt(JobState("demo", "run-1", Map({"0": group}), hosts, next_epoch=2))
    event = ev.TimePassed(5)
    result = step(state, event)
    after = result.state.groups["0"]
    assert "0-0" not in after.processors
    starts = [c for c in result.commands if isinstance(c, cmd.StartContainer)]
    assert [start.processor_id for start in starts] == ["0"]

    def judged(commands: tuple[cmd.Command, ...]) -> None:
        judge_certificates(
            Chronicle(), Taken(state, event, result.state, commands, [(group, after)])
        )

    judged(result.commands)
    removal = cmd.DeleteLocality("0-0")
    with pytest.raises(InvariantViolated, match="instead of 'it should run'"):
        judged((removal, *(c for c in result.commands if c != removal)))


def test_a_heap_that_leans_to_the_right_is_found() -> None:
    """What it holds is the same; a step would cost as many as wait."""
    state = step(JobState("demo"), ev.TimePassed(5)).state
    event, leaf = ev.TimePassed(6), Node(1, (8, 0, "b"), None, None)
    after = step(state, event).state

    def judged(heap: Node) -> None:
        leaning = replace(after, index=after.index._replace(deadlines=heap))
        judge_same_without_index(Taken(state, event, leaning, (), []))

    judged(Node(1, (7, 0, "a"), leaf, None))
    with pytest.raises(InvariantViolated, match="leans to the right"):
        judged(Node(1, (7, 0, "a"), None, leaf))
    with pytest.raises(InvariantViolated, match="is above"):
        judged(Node(1, (9, 0, "a"), leaf, None))


def test_an_auditor_who_forgets_the_epochs_of_older_ends_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What age has taken still bounds the epochs that follow."""
    history = simulate(3, 120)
    played = play(history.script.setup, history.script.moves)
    records = [c.record for c in played.world.brokers.audit][:20]
    remembers = audit_rules.History._end_of_older

    def forgets(self: audit_rules.History, record: AuditRecord) -> None:
        remembers(self, record)
        self._highest_epoch = 0

    monkeypatch.setattr(audit_rules.History, "_end_of_older", forgets)
    with pytest.raises(InvariantViolated, match="an older end's epoch"):
        audit_trail.judge_tampering(records)


def test_a_host_that_is_excluded_without_a_reason_is_found() -> None:
    """Also when others are lost in the same step; what the group held until then may be."""

    def heart(state: JobState, event: ev.Event) -> Step:
        taken = step(state, event)
        if not isinstance(event, ev.HostLost):
            return taken
        fresh = {c.request_id for c in taken.commands if isinstance(c, cmd.RequestResource)}
        taken = processors(lambda processor: _choosy(processor, fresh))(event, taken)
        return replace(
            taken,
            commands=tuple(
                replace(c, excluded_hosts=(*c.excluded_hosts, "host-9"))
                if isinstance(c, cmd.RequestResource) and c.host is None
                else c
                for c in taken.commands
            ),
        )

    found = (simulate(seed, 120, heart=heart).violation for seed in range(1, 40))
    assert next(v.invariant for v in found if v is not None) == "right-place"


def _choosy(processor: Processor, fresh: set[str]) -> Processor:
    request = processor.request
    if request is None or request.host is not None or request.request_id not in fresh:
        return processor
    return replace(
        processor, request=replace(request, excluded_hosts=(*request.excluded_hosts, "host-9"))
    )


def test_histories_of_many_requests_meet_faults_while_these_are_acted_on() -> None:
    """What passes in a few moves: something is reserved, and its coordinator or host is gone."""
    met = Counter[str]()
    for seed in MOVES:
        history = simulate(seed, 250)
        assert history.violation is None
        for (row, column), count in history.coverage.items():
            if row == "action reserving" and column in ("crash", "lost host", "agent restart"):
                met[column] += count
    assert min(met["crash"], met["lost host"], met["agent restart"]) > 0
