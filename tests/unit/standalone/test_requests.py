"""What a leader makes of placement requests: one scene for a rule."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samza_dagster.assignment import by_container_ids, by_locality
from samza_dagster.model.naming import active_task_of
from samza_dagster.model.placement_messages import PlacementRequest, PlacementResponse, StatusCode
from samza_dagster.standalone import requests
from samza_dagster.standalone.division import divided
from samza_dagster.standalone.group import (
    Barrier,
    BarrierState,
    GroupView,
    Member,
    Pin,
    Running,
    processor_of,
)
from samza_dagster.standalone.job_plan import JobPlan
from samza_dagster.standalone.processor import ProcessorState, Publish, Settings, step
from samza_dagster.standalone.requests import Forget, Respond, SetPin, SetRestart
from tests.rig.standalone_groups import runs

pytestmark = pytest.mark.unit

U1, U2 = (f"00000000-0000-0000-0000-00000000000{number}" for number in (1, 2))
MEMBERS = tuple(Member(f"000{n}", f"p{n}", f"h{n}") for n in range(3))
PLAN = JobPlan({"in": 3}, {"in": "kafka"}, 1, by_locality)
TASK, STANDBY_TASK = "Partition 0", "Standby-Partition 0-0"


def settled(*members: Member, plan: JobPlan = PLAN) -> GroupView:
    """A group that runs an agreed version, by the plan: `Partition n` at `hn`."""
    found = GroupView(members or MEMBERS, read_ms=1_000)
    return replace(
        found,
        version=1,
        agreed=1,
        highest=1,
        model=plan.model(found),
        barrier=Barrier(BarrierState.DONE, frozenset(m.processor_id for m in found.members)),
        running={member.sequence: Running(1) for member in found.members},
    )


GROUP = settled()


def place_of(name: str, group: GroupView = GROUP) -> str:
    found = {member.processor_id: member.location for member in group.members}
    return found[processor_of(group.model, name) or ""]


def elsewhere(*names: str) -> str:
    """A location that none of these is at."""
    return min({member.location for member in MEMBERS} - {place_of(name) for name in names})


def ask(
    name: str, to: str, uuid: str = U1, at_ms: int = 500, expiry_ms: int | None = None
) -> PlacementRequest:
    return PlacementRequest(
        uuid=uuid,
        deployment_id="standalone",
        processor_id=name,
        destination_host=to,
        timestamp=at_ms,
        request_expiry=expiry_ms,
    )


def asked(*made: PlacementRequest, group: GroupView = GROUP) -> GroupView:
    return replace(group, requests=made)


def carried_out(group: GroupView, *commands: requests.Command) -> GroupView:
    """The group as the commands leave it."""
    pins, restarts, responses = dict(group.pins), dict(group.restarts), dict(group.responses)
    for command in commands:
        if isinstance(command, SetPin):
            pins.pop(command.task, None)
            pins |= {} if command.pin is None else {command.task: command.pin}
        elif isinstance(command, SetRestart):
            restarts.pop(command.processor_id, None)
            restarts |= {} if command.uuid is None else {command.processor_id: command.uuid}
        elif isinstance(command, Respond):
            responses[command.response.uuid] = command.response
    waiting = tuple(each for each in group.requests if each.uuid not in responses)
    return replace(group, requests=waiting, pins=pins, restarts=restarts, responses=responses)


def begun(*made: PlacementRequest, group: GroupView = GROUP) -> GroupView:
    """The group once its leader has taken them up."""
    seen = asked(*made, group=group)
    return carried_out(seen, *requests.commands_for(seen))


def responses(*commands: object) -> list[tuple[StatusCode, str]]:
    found = [each.response for each in commands if isinstance(each, Respond)]
    return [(response.status_code, response.response_message) for response in found]


def the_answer(group: GroupView) -> PlacementResponse:
    (command,) = (each for each in requests.commands_for(group) if isinstance(each, Respond))
    return command.response


def test_a_request_for_a_task_pins_it_and_succeeds_once_its_processor_runs_it_there() -> None:
    """Not when the version is agreed on: its containers may not have started yet."""
    target = elsewhere(TASK, STANDBY_TASK)
    seen = asked(ask(TASK, target))
    pin, response = requests.commands_for(seen)
    assert pin == SetPin(TASK, Pin(target, U1))
    assert isinstance(response, Respond)
    assert response.response.status_code is StatusCode.IN_PROGRESS
    under_way = carried_out(seen, pin, response)
    assert requests.awaits_version(under_way)
    assert requests.commands_for(under_way) == ()
    planned = replace(under_way, version=2, model=PLAN.model(under_way))
    assert place_of(TASK, planned) == target
    assert not requests.awaits_version(planned)
    for state, version, commands in (
        (BarrierState.NEW, 1, 0),
        (BarrierState.DONE, 1, 0),
        (BarrierState.DONE, 2, 1),
    ):
        running = {member.sequence: Running(version) for member in MEMBERS}
        later = replace(planned, barrier=Barrier(state), running=running)
        assert len(requests.commands_for(later)) == commands
    assert the_answer(later).status_code is StatusCode.SUCCEEDED
    assert later.pins == {TASK: Pin(target, U1)}


def test_a_leader_publishes_for_those_that_came_together_within_a_second() -> None:
    """Its debounce time is for members that come and go, and for Java containers that are starting."""
    work = GROUP.work_of("p0")
    assert work is not None
    leader = ProcessorState(
        *("p0", "h0", Settings(), 0, "0000"),
        found=0,
        joined=1,
        counted=MEMBERS,
        work=runs(*divided("p0", (), work.tasks, ())),
        running=Running(1),
    )
    target = elsewhere(TASK, STANDBY_TASK)
    seen = begun(ask(TASK, target), ask("Partition 1", target, U2))
    state, commands = step(leader, seen, 0, PLAN.model)
    assert (commands, state.plan_ms) == ((), 1_000)
    beside_samza = replace(seen, members=(*MEMBERS[:2], MEMBERS[2]._replace(holds_standbys=False)))
    slower, _ = step(replace(leader, counted=beside_samza.members), beside_samza, 0, PLAN.model)
    assert slower.plan_ms == Settings().debounce_ms
    _, (published,) = step(state, seen, 1_000, PLAN.model)
    assert isinstance(published, Publish)
    for name in (TASK, "Partition 1"):
        assert place_of(name, replace(seen, model=published.model)) == target


def test_the_only_task_of_a_group_moves_where_it_is_asked_though_nothing_gets_evener() -> None:
    """And once it is there no other version follows."""
    plan = JobPlan({"in": 1}, {"in": "kafka"}, 0, by_locality)
    group = replace(GROUP, model=plan.model(GroupView(MEMBERS)))
    leader = ProcessorState(
        *("p0", "h0", Settings(), 0, "0000"),
        found=0,
        joined=1,
        counted=MEMBERS,
        served=MEMBERS,
        plan_ms=0,
        running=Running(1),
    )
    target = min({"h0", "h1", "h2"} - {place_of(TASK, group)})
    seen = begun(ask(TASK, target), group=group)
    _, commands = step(leader, seen, 0, plan.model)
    (published,) = (each for each in commands if isinstance(each, Publish))
    there = replace(seen, model=published.model)
    assert place_of(TASK, there) == target
    settled, commands = step(leader, replace(there, responses={}), 0, plan.model)
    assert settled.plan_ms is None
    assert not [each for each in commands if isinstance(each, Publish)]


def test_to_its_standby_is_where_that_is_and_the_standby_gives_way() -> None:
    """And a pin of the standby that is in the way counts no more."""
    pinned = replace(GROUP, pins={STANDBY_TASK: Pin(place_of(STANDBY_TASK), U2)})
    seen = asked(ask(TASK, "STANDBY"), group=pinned)
    freed, pin, response = requests.commands_for(seen)
    assert freed == SetPin(STANDBY_TASK, None)
    assert pin == SetPin(TASK, Pin(place_of(STANDBY_TASK), U1))
    after = carried_out(seen, freed, pin, response)
    after = replace(after, model=PLAN.model(after))
    assert place_of(TASK, after) == place_of(STANDBY_TASK)
    assert place_of(STANDBY_TASK, after) == place_of(TASK)


def test_a_location_that_is_emptied_task_by_task_is_not_filled_meanwhile() -> None:
    """A drain failed: for each task that left, the leader put another one there, as evenness wanted it. It does once
    nothing is asked for any more."""
    group = settled()
    for number in range(3):
        task = f"Partition {number}"
        for name in (f"Standby-{task}-0", task):
            if place_of(name, group) != "h2":
                continue
            others = {place_of(each, group) for each in (task, f"Standby-{task}-0")}
            target = min({"h0", "h1"} - (others - {"h2"}))
            seen = begun(ask(name, target, str(UUID(int=len(group.responses)))), group=group)
            before, model = seen.model, PLAN.model(seen, requests.staying(seen))
            assert before is not None
            moved = {n for e in model.containers.values() for n in e.tasks} & {
                n
                for p, e in before.containers.items()
                for n in e.tasks
                if n not in model.containers[p].tasks
            }
            assert moved == {name}
            version = seen.version + 1
            running = {member.sequence: Running(version) for member in seen.members}
            group = replace(seen, version=version, agreed=version, model=model, running=running)
            group = carried_out(group, *requests.commands_for(group))
    assert group.work_of("p2") is None
    assert PLAN.model(group).containers["p2"].tasks


def test_what_is_pinned_is_free_again_by_a_request_for_any_host() -> None:
    """Nothing moves for that: the next version may place it."""
    seen = asked(ask(TASK, "ANY_HOST"), group=replace(GROUP, pins={TASK: Pin("h0", U2)}))
    freed, response = requests.commands_for(seen)
    assert freed == SetPin(TASK, None)
    assert responses(response)[0][0] is StatusCode.SUCCEEDED


def test_a_processor_restarts_once_and_says_so_itself() -> None:
    """By its running node; who leads then deletes what told it."""
    seen = asked(ask("p1", "LAST_SEEN"))
    under_way = begun(ask("p1", "LAST_SEEN"))
    assert requests.commands_for(seen)[0] == SetRestart("p1", U1)
    assert under_way.restarts == {"p1": U1}
    assert requests.commands_for(under_way) == ()
    done = replace(under_way, running={**GROUP.running, "0001": Running(1, restart=U1)})
    assert the_answer(done).status_code is StatusCode.SUCCEEDED
    ended = carried_out(done, *requests.commands_for(done))
    assert requests.commands_for(ended) == (SetRestart("p1", None),)
    again = requests.commands_for(replace(ended, requests=(ask("p1", "LAST_SEEN", U2),)))
    assert carried_out(ended, *again).restarts == {"p1": U2}


def test_a_leader_that_died_in_the_middle_is_followed_by_one_that_goes_on() -> None:
    """The pin names its request: it isn't decided again."""
    seen = asked(ask(TASK, "STANDBY"))
    pin, _ = requests.commands_for(seen)
    seen = carried_out(seen, pin)
    (response,) = requests.commands_for(replace(seen, members=MEMBERS[1:]))
    assert responses(response)[0][0] is StatusCode.IN_PROGRESS
    seen = carried_out(asked(ask("p1", "LAST_SEEN")), SetRestart("p1", U1))
    (response,) = requests.commands_for(seen)
    assert responses(response)[0][0] is StatusCode.IN_PROGRESS


@pytest.mark.parametrize("names", [(TASK, STANDBY_TASK), (STANDBY_TASK, TASK)])
def test_of_a_task_and_its_standbys_one_request_is_under_way_at_a_time(
    names: tuple[str, str],
) -> None:
    """The later one waits for its end, however it ends; other tasks don't wait."""
    target = elsewhere(TASK, STANDBY_TASK)
    first, later = ask(names[0], target), ask(names[1], target, U2)
    under_way = begun(first, later)
    assert under_way.responses.keys() == {U1}
    assert under_way.requests == (later,)
    assert requests.commands_for(under_way) == ()
    other = replace(under_way, requests=(ask("Partition 1", target, U2),))
    assert responses(*requests.commands_for(other))[0][0] is StatusCode.IN_PROGRESS


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (ask("nobody", "h0"), "name one of Partition 0, "),
        (ask(TASK, "h9"), "no processor is at h9; name one of h0, h1, h2"),
        (ask(TASK, "LAST_SEEN"), "or its processor p"),
        (ask("p1", "h0"), "destination LAST_SEEN, or one of its tasks"),
        (ask(STANDBY_TASK, "STANDBY"), "has none at another location; name one of h0"),
        (ask(STANDBY_TASK, place_of(TASK)), f"{TASK} is at {place_of(TASK)}; another location"),
        (ask(TASK, "h0").model_copy(update={"deployment_id": "7"}), "deploymentId standalone"),
    ],
)
def test_what_is_illegal_is_refused_and_changes_nothing(
    request_: PlacementRequest, said: str
) -> None:
    """With the rule, what was seen, and what would be legal."""
    (command,) = requests.commands_for(asked(request_))
    ((status, message),) = responses(command)
    assert status is StatusCode.BAD_REQUEST
    assert said in message


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"members": MEMBERS[:2]}, "no processor is at h2 any more"),
        ({"barrier": Barrier(BarrierState.TIMED_OUT)}, "was given up"),
        ({"pins": {}}, "its pin was deleted"),
    ],
)
def test_what_can_no_longer_be_fails_and_leaves_no_pin(
    change: dict[str, object], said: str
) -> None:
    """Nor is it carried out later."""
    name = next(f"Partition {n}" for n in range(3) if place_of(f"Partition {n}") != "h2")
    seen = begun(ask(name, "h2"))
    seen = replace(seen, version=2, model=PLAN.model(seen), **change)  # pyright: ignore[reportArgumentType]
    commands = requests.commands_for(seen)
    ((status, message),) = responses(*commands)
    assert status is StatusCode.FAILED
    assert said in message
    assert carried_out(seen, *commands).pins == {}


def test_a_request_expires_while_no_version_has_it() -> None:
    """Counted from when it was taken up; a version that has it decides by its barrier."""
    target = elsewhere(TASK, STANDBY_TASK)
    seen = begun(ask(TASK, target, expiry_ms=100))
    assert requests.commands_for(replace(seen, read_ms=1_099)) == ()
    late = replace(seen, read_ms=1_100)
    assert the_answer(late).status_code is StatusCode.FAILED
    assert requests.commands_for(replace(late, version=2, model=PLAN.model(late))) == ()


def test_a_grouper_that_follows_no_pins_makes_requests_fail() -> None:
    """The version isn't made for them."""
    other = JobPlan({"in": 3}, {"in": "kafka"}, 0, by_container_ids)
    group = replace(GROUP, model=other.model(GROUP))
    seen = begun(ask(TASK, elsewhere(TASK)), group=group)
    freed, failed = requests.unmet(seen, other.model(seen))
    assert freed == SetPin(TASK, None)
    assert "follows no pins" in responses(failed)[0][1]


def test_a_response_is_kept_for_a_day() -> None:
    """Then it is deleted, and a request that was written once more with it."""
    done = replace(GROUP, pins={TASK: Pin("h0", U2)})
    done = begun(ask(TASK, "ANY_HOST"), group=done)
    day = requests.RESPONSES_KEPT_MS
    assert requests.commands_for(replace(done, read_ms=1_000 + day - 1)) == ()
    assert requests.commands_for(replace(done, read_ms=1_000 + day)) == (Forget(U1),)


def test_a_pin_to_where_nobody_is_goes_when_the_next_version_is_made() -> None:
    """And one of a task that the job has no more."""
    pins = {TASK: Pin("h1", U1), "Partition 1": Pin("gone", U2), "Partition 9": Pin("h1", U2)}
    group = replace(GROUP, pins=pins)
    assert requests.idle_pins(group, PLAN.model(group)) == (
        SetPin("Partition 1", None),
        SetPin("Partition 9", None),
    )


def test_samzas_own_processors_say_no_more_than_that_they_have_joined() -> None:
    """A task is there once all have agreed; they can't be told to restart, and get no standby.

    Where a member has come since, a version is to be made: it may be the same one, at another place.
    """
    members = (*MEMBERS[:2], MEMBERS[2]._replace(holds_standbys=False))
    group = settled(*members)
    group = replace(group, running={m.sequence: Running(1) for m in MEMBERS[:2]})
    task = next(f"Partition {n}" for n in range(3) if place_of(f"Partition {n}", group) != "h2")
    seen = begun(ask(task, "h2"), group=group)
    agreed = replace(seen, version=2, model=PLAN.model(seen))
    assert the_answer(agreed).status_code is StatusCode.SUCCEEDED
    assert requests.commands_for(agreed, is_settled=False) == ()
    refused = the_answer(asked(ask("p2", "LAST_SEEN"), group=group))
    assert "p2 is Samza's own" in refused.response_message
    standby = begun(ask(f"Standby-{task}-0", "h2"), group=group)
    assert len(requests.unmet(standby, PLAN.model(standby))) == 2


def test_what_waited_for_a_plan_is_answered_once_that_is_the_version_that_there_is() -> None:
    """A task at one of Samza's own, which tell nothing: else nobody would look at its request again for long."""
    members = (*MEMBERS[:2], MEMBERS[2]._replace(holds_standbys=False))
    group = settled(*members)
    group = replace(group, running={m.sequence: Running(1) for m in MEMBERS[:2]})
    task = next(f"Partition {n}" for n in range(3) if place_of(f"Partition {n}", group) != "h2")
    seen = begun(ask(task, "h2"), group=group)
    agreed = replace(seen, version=2, agreed=2, highest=2, model=PLAN.model(seen))
    agreed = replace(agreed, running={m.sequence: Running(2) for m in MEMBERS[:2]})
    leader = ProcessorState(
        *("p0", "h0", Settings(), 0, "0000"),
        found=0,
        joined=2,
        counted=members,
        served=members,
        plan_ms=100,
        running=Running(2),
    )
    state, commands = step(leader, agreed, 100, PLAN.model)
    ((status, _),) = responses(*commands)
    assert (status, state.plan_ms) == (StatusCode.SUCCEEDED, None)


def test_nothing_is_answered_by_an_older_version_than_the_one_that_was_agreed_on() -> None:
    """Somebody has deleted the newest one's barrier: where its tasks are nobody can tell, till the next one is made."""
    target = elsewhere(TASK, STANDBY_TASK)
    seen = begun(ask(TASK, target))
    back = replace(seen, model=PLAN.model(seen), agreed=2, highest=2)
    assert the_answer(replace(back, agreed=1)).status_code is StatusCode.SUCCEEDED
    leader = ProcessorState(
        *("p0", "h0", Settings(), 0, "0000"),
        found=0,
        counted=MEMBERS,
        served=MEMBERS,
        running=Running(1),
    )
    state, commands = step(leader, back, 0, PLAN.model)
    assert responses(*commands) == []
    _, (published,) = step(state, back, Settings().debounce_ms, PLAN.model)
    assert isinstance(published, Publish)
    assert published.version == 3
    # Its answer is lost: nobody ends that barrier, so another version follows.
    there = replace(back, version=3, highest=3, barrier=Barrier(BarrierState.NEW))
    _, (again, *_) = step(state, there, Settings().debounce_ms, PLAN.model)
    assert isinstance(again, Publish)
    assert again.version == 4


NAMES = [
    *(
        f"{kind}Partition {n}{end}"
        for n in (0, 1)
        for kind, end in (("", ""), ("Standby-", "-0"), ("Standby-", "-1"))
    ),
    *("p0", "p2", "nobody"),
]
WHERE = ["h0", "h1", "h2", "h9", "ANY_HOST", "STANDBY", "LAST_SEEN", "FORCE_RESTART_LAST_SEEN"]


def is_legal(name: str, to: str, group: GroupView) -> bool:
    """By what people are told of requests, from where everything is."""
    of_processors = {member.processor_id: member for member in group.members}
    if name in of_processors:
        return to == "LAST_SEEN" and of_processors[name].holds_standbys
    at = {
        task: of_processors[pid].location if pid in of_processors else None
        for pid, each in group.containers.items()
        for task in each.tasks
    }
    here = {member.location for member in group.members}
    own = active_task_of(name)
    others = {each for each in at.keys() | group.pins.keys() if active_task_of(each) == own != each}
    if name not in at or to not in {*here, "ANY_HOST", "STANDBY"}:
        return False
    if to == "STANDBY":
        return name == own and any(at.get(each) not in (None, at[own]) for each in others)
    if name == own or to == "ANY_HOST":
        return True
    pinned = {each: pin.location for each, pin in group.pins.items() if pin.location in here}
    return to not in {pinned.get(own, at[own]), *(pinned.get(e) for e in others - {name})}


@settings(deadline=None)
@given(
    st.sampled_from(NAMES),
    st.sampled_from(WHERE),
    st.dictionaries(
        st.sampled_from(NAMES[:6]), st.sampled_from(["h0", "h1", "h2", "gone"]), max_size=3
    ),
    st.dictionaries(st.integers(0, 3), st.sampled_from(["", "h0", "h1", "h2", "h3"]), max_size=2),
    st.integers(0, 2),
)
def test_what_is_legal_is_taken_up_and_done_and_all_else_is_refused_and_changes_nothing(
    name: str, to: str, pins: dict[str, str], moved: dict[int, str], replicas: int
) -> None:
    """Whatever is pinned since, and whoever has left or come back elsewhere: a request that was taken up is met by the next version."""
    members = (*MEMBERS, Member("0003", "p3", "h0", holds_standbys=False))
    plan = replace(PLAN, replicas=replicas)
    group = settled(*members, plan=plan)
    now = [each._replace(location=moved.get(n, each.location)) for n, each in enumerate(members)]
    left = tuple(each for each in now if each.location)
    group = replace(group, members=left, pins={n: Pin(at, U2) for n, at in pins.items()})
    seen = asked(ask(name, to), group=group)
    commands = requests.commands_for(seen)
    ((status, _),) = responses(*commands)
    if not is_legal(name, to, group):
        assert status is StatusCode.BAD_REQUEST
        assert len(commands) == 1
        return
    under_way = carried_out(seen, *commands)
    if to in ("ANY_HOST", "LAST_SEEN"):
        assert status is (StatusCode.SUCCEEDED if to == "ANY_HOST" else StatusCode.IN_PROGRESS)
        assert under_way.pins == {
            n: pin for n, pin in group.pins.items() if (n, to) != (name, "ANY_HOST")
        }
        assert under_way.restarts == ({name: U1} if to == "LAST_SEEN" else {})
        return
    assert status is StatusCode.IN_PROGRESS
    target = under_way.pins[name].location
    assert target == to or to == "STANDBY"
    own = active_task_of(name)
    assert (
        under_way.pins.items()
        >= {n: p for n, p in group.pins.items() if active_task_of(n) != own}.items()
    )
    planned = replace(under_way, version=2, model=plan.model(under_way))
    assert planned.model is not None
    may_have = {each.location for each in left if each.holds_standbys or name == own}
    is_there = processor_of(planned.model, name) in {
        e.processor_id for e in left if e.location == target
    }
    assert is_there == (requests.unmet(under_way, planned.model) == ())
    has_active = processor_of(group.model, own) in {e.processor_id for e in {*left} & {*members}}
    assert is_there or target not in may_have or not has_active, "it starts where a copy is"
    running = {member.sequence: Running(2) for member in left if member.holds_standbys}
    done = replace(planned, running=running)
    assert not is_there or the_answer(done).status_code is StatusCode.SUCCEEDED
