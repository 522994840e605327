"""The JobModel that a leader publishes, and what containers are served of it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samza_dagster.assignment import Grouper, by_container_count, by_container_ids, by_locality
from samza_dagster.errors import InvalidInput
from samza_dagster.model import JobModel, TaskMode
from samza_dagster.standalone.division import divided, served_model
from samza_dagster.standalone.group import GroupView, Member, Pin, Running
from samza_dagster.standalone.job_plan import JobPlan

pytestmark = pytest.mark.unit

PLAN = JobPlan({"in": 4, "side": 2}, {"in": "kafka", "side": "other"}, 1, by_locality)


def group(
    *ids: str, model: JobModel | None = None, locality: dict[str, str] | None = None
) -> GroupView:
    """Each processor at a location of its own; one whose id begins with `java` is Samza's."""
    members = tuple(
        Member(f"{n:010d}", pid, f"host-{pid}", not pid.startswith("java"))
        for n, pid in enumerate(ids)
    )
    return GroupView(members, model=model, locality=locality or {})


def at(model: JobModel) -> dict[str, str]:
    return {task: pid for pid, each in model.containers.items() for task in each.tasks}


def test_each_task_has_a_standby_elsewhere_and_its_inputs_their_own_systems() -> None:
    """The config is empty: a processor has it from its own properties."""
    model = PLAN.model(group("a", "b"))
    assert model.config == {}
    found = at(model)
    for number in range(4):
        assert found[f"Partition {number}"] != found[f"Standby-Partition {number}-0"]
    tasks = {name: task for each in model.containers.values() for name, task in each.tasks.items()}
    inputs = {(p.system, p.stream) for p in tasks["Partition 1"].system_stream_partitions}
    assert inputs == {("kafka", "in"), ("other", "side")}


def test_a_processor_without_tasks_is_named_too() -> None:
    """By that a leader tells whether a version is for the members that are there."""
    one = JobPlan({"in": 1}, {"in": "kafka"}, 0, by_locality)
    model = one.model(group("a", "b", "c"))
    assert model.containers.keys() == {"a", "b", "c"}
    assert sorted(len(each.tasks) for each in model.containers.values()) == [0, 0, 1]


def test_what_needn_t_move_stays_and_a_dead_processors_tasks_go_to_their_standbys() -> None:
    """And a task keeps its changelog partition, whoever has it."""
    before = PLAN.model(group("a", "b", "c"))
    locality = {task: f"host-{pid}" for task, pid in at(before).items()}
    assert PLAN.model(group("a", "b", "c", model=before, locality=locality)) == before
    after = PLAN.model(group("b", "c", model=before, locality=locality))
    for name, pid in at(after).items():
        if not name.startswith("Standby-"):
            assert pid in {at(before)[name], at(before)[f"Standby-{name}-0"]}
    partitions = [
        {
            name: task.changelog_partition
            for each in m.containers.values()
            for name, task in each.tasks.items()
        }
        for m in (before, after)
    ]
    assert partitions[1].items() <= partitions[0].items()


def test_a_processor_that_comes_back_elsewhere_has_left_its_state_behind() -> None:
    """Under its id, before anybody made a version without it: its tasks start where their standbys are."""
    model = PLAN.model(group("a", "b", "c"))
    locality = {task: f"host-{pid}" for task, pid in at(model).items()}
    seen = group("a", "b", "c", model=model, locality=locality)
    moved = (seen.members[0]._replace(location="host-d"), *seen.members[1:])
    after = at(PLAN.model(replace(seen, members=moved)))
    actives = {name for name in after if not name.startswith("Standby-")}
    assert {"a"} <= {at(model)[name] for name in actives}
    for name in actives:
        assert after[name] in {at(model)[name], at(model)[f"Standby-{name}-0"]} - {"a"}


@pytest.mark.parametrize(("replicas", "moves"), [(0, [4, 4, 0]), (1, [4, 0, 4])])
def test_a_rolling_upgrade_moves_the_tasks_of_who_is_down_away_and_back_and_no_others(
    replicas: int, moves: list[int]
) -> None:
    """Of 12 active tasks on 3 processors 4 when one leaves and 4 when it is back, the fewest for an even spread:
    at once, or where there are standbys when the leader asks again, as none starts without its state."""
    plan = JobPlan({"in": 12}, {"in": "kafka"}, replicas, by_locality)
    ids = ("a", "b", "c")
    model = plan.model(group(*ids))
    locality = {task: f"host-{pid}" for task, pid in at(model).items()}
    for down in ids:
        others = tuple(pid for pid in ids if pid != down)
        counted: list[int] = []
        for members in (others, ids, ids):
            before = at(model)
            model = plan.model(group(*members, model=model, locality=locality))
            active = {n: p for n, p in at(model).items() if not n.startswith("Standby-")}
            moved = [name for name, pid in active.items() if pid != before[name]]
            for name in moved if replicas else ():
                assert active[name] == before[f"Standby-{name}-0"]
            locality |= {task: f"host-{pid}" for task, pid in at(model).items()}
            counted.append(len(moved))
        assert counted == moves, down


@pytest.mark.parametrize("replicas", [0, 1, 2])
@pytest.mark.parametrize("tasks", [4, 12, 13])
@pytest.mark.parametrize("ids", [("a", "b"), ("a", "b", "c", "d")])
def test_who_was_away_gets_its_tasks_back(replicas: int, tasks: int, ids: tuple[str, ...]) -> None:
    """All of them, in a rolling upgrade of processors with equally many: by older versions.

    Of two processors one is alone meanwhile, and no standby is anywhere.
    """
    plan = JobPlan({"in": tasks}, {"in": "kafka"}, replicas, by_locality)
    versions = [plan.model(group(*ids))]

    def publish(*members: str) -> dict[str, str]:
        locality = {t: f"host-{pid}" for model in versions for t, pid in at(model).items()}
        seen = group(*members, model=versions[-1], locality=locality)
        history = tuple(at(model) for model in reversed(versions[-9:-1]))
        versions.append(plan.model(replace(seen, history=history)))
        return {t: pid for t, pid in at(versions[-1]).items() if t.startswith("Partition")}

    first = publish(*ids)
    for down in ids:
        had = {task for task, pid in publish(*ids).items() if pid == down}
        publish(*(pid for pid in ids if pid != down))
        found = [publish(*ids) for _ in range(4)][-1]
        has = {task for task, pid in found.items() if pid == down}
        assert has <= had or tasks == 13, down
    kept = sum(first[task] == found[task] for task in first)
    assert kept == tasks or (tasks == 13 and kept >= 9)


@settings(deadline=None)
@given(st.lists(st.sets(st.sampled_from("abcde"), min_size=2), min_size=2, max_size=5), st.data())
def test_no_active_starts_without_its_state_while_a_copy_of_it_is_left(
    versions: list[set[str]], data: st.DataObject
) -> None:
    """That is where a task has run, not where a version would have it whose processor hasn't started it yet."""
    seen, ran, run = group(), dict[str, str](), dict[str, int]()
    for version, ids in enumerate(versions, 1):
        members = group(*sorted(ids)).members
        run = {pid: newest for pid, newest in run.items() if pid in ids}
        said = {m.sequence: Running(run[m.processor_id]) for m in members if m.processor_id in run}
        seen = replace(seen, members=members, locality=ran, running=said)
        model = PLAN.model(seen)
        for name in ran.keys() & {f"Partition {number}" for number in range(4)}:
            copies = {ran.get(each, "") for each in (name, f"Standby-{name}-0")}
            left = copies & {member.location for member in members}
            assert f"host-{at(model)[name]}" in left or not left
        started = data.draw(st.sets(st.sampled_from(sorted(ids))))
        ran |= {name: f"host-{pid}" for name, pid in at(model).items() if pid in started}
        run |= dict.fromkeys(started, version)
        seen = replace(seen, model=model, version=version)


def test_inputs_that_have_grown_go_to_the_tasks_that_had_their_keys() -> None:
    """As Samza's leader does it (SEP-5); a job with stores, or another number, keeps its tasks, and it is said."""
    small = JobPlan({"in": 2}, {"in": "kafka"}, 1, by_locality, is_stateful=False)
    seen = group("a", "b", model=small.model(group("a", "b")))
    assert small.refused(seen) == ""
    grown = replace(small, partition_counts={"in": 4})
    model = grown.model(seen)
    tasks = {name: task for each in model.containers.values() for name, task in each.tasks.items()}
    inputs = {n: [p.partition for p in t.system_stream_partitions] for n, t in tasks.items()}
    assert inputs["Partition 0"] == inputs["Standby-Partition 0-0"] == [0, 2]
    assert inputs["Partition 1"] == [1, 3]
    assert len(inputs) == 4
    assert grown.refused(replace(seen, model=model)) == ""
    assert grown.model(replace(seen, model=model)) == model
    for plan, why in (
        (replace(grown, is_stateful=True), "another job.id"),
        (replace(grown, partition_counts={"in": 3}), "multiple"),
    ):
        assert plan.model(seen) == seen.model
        assert why in plan.refused(seen)
        assert "in has" in plan.refused(seen)


@pytest.mark.parametrize("grouper", [by_container_count, by_container_ids])
def test_samzas_groupers_have_standbys_placed_around_what_they_give(grouper: Grouper) -> None:
    """Of any size, beside Samza's own processors too; the groupers themselves know no standby."""
    for tasks in range(1, 7):
        plan = JobPlan({"in": tasks}, {"in": "kafka"}, 1, grouper)
        for ids in (("a",), ("a", "b"), ("a", "b", "c", "d", "e"), ("a", "b", "java1")):
            seen = group(*ids)
            for _ in range(3):
                model = plan.model(seen)
                found = at(model)
                assert {f"Partition {n}" for n in range(tasks)} <= found.keys()
                for name, pid in found.items():
                    if name.startswith("Standby-"):
                        assert pid != found[name.removeprefix("Standby-").removesuffix("-0")]
                        assert not pid.startswith("java")
                locality = {task: f"host-{pid}" for task, pid in found.items()}
                seen = group(*ids, model=model, locality=locality)
        more = JobPlan({"in": 1}, {"in": "kafka"}, 0, grouper).model(group("a", "b"))
        assert sorted(len(each.tasks) for each in more.containers.values()) == [0, 1]


def test_an_empty_group_is_refused() -> None:
    """It names what is missing."""
    with pytest.raises(InvalidInput, match="processor"):
        PLAN.model(group())


def test_containers_are_served_active_and_standby_tasks_apart() -> None:
    """All processors' containers, with ids by which Samza tells standbys: by a `-`, which a UUID has too."""
    model = PLAN.model(group("3f0c-11", "3f0c_11"))
    own = divided("3f0c-11", (), model.containers["3f0c-11"].tasks, ())
    served = served_model(model, {"job.name": "j"}, "3f0c-11", own)
    assert served.config == {"job.name": "j"}
    assert len(served.containers) == 4
    for each, container in served.containers.items():
        modes = {task.task_mode for task in container.tasks.values()}
        assert modes == {TaskMode.STANDBY if "-" in each else TaskMode.ACTIVE}
    tasks = [name for container in served.containers.values() for name in container.tasks]
    assert sorted(tasks) == sorted(at(model))


def test_who_joins_gets_standbys_first_and_actives_when_asked_again_until_all_is_even() -> None:
    """No active starts without its state; after some rounds nothing changes any more."""
    model = PLAN.model(group("a", "b"))
    for _ in range(6):
        before, held = model, at(model)
        locality = {task: f"host-{pid}" for task, pid in held.items()}
        model = PLAN.model(group("a", "b", "c", model=model, locality=locality))
        for name, pid in at(model).items():
            if not name.startswith("Standby-"):
                assert pid in {held[name], held[f"Standby-{name}-0"]}
    assert model == before
    actives = [
        sum(not n.startswith("Standby-") for n in each.tasks) for each in model.containers.values()
    ]
    assert max(actives) - min(actives) <= 1


@pytest.mark.parametrize("seed", range(30))
def test_pinned_tasks_are_where_they_are_pinned_and_all_else_is_as_even_as_that_allows(
    seed: int,
) -> None:
    """Whatever was before: an active always, a standby where its active isn't, and one of our processors is; and it settles."""
    chance = random.Random(seed)
    members = tuple(
        Member(f"{n:02d}", f"p{n}", f"h{n % 4}", holds_standbys=n % 3 != seed % 5)
        for n in range(chance.randint(2, 8))
    )
    plan = JobPlan({"in": 6}, {"in": "kafka"}, chance.randrange(3), by_locality)
    names = [
        name for each in plan.model(GroupView(members)).containers.values() for name in each.tasks
    ]
    group = GroupView(members)
    for _ in range(4):
        pinned = chance.sample(names, k=min(3, len(names)))
        pins = {name: Pin(f"h{chance.randrange(4)}", "u") for name in pinned}
        group = replace(group, pins=pins)
        model = plan.model(group)
        at_location = {m.processor_id: m.location for m in members}
        found = {task: at_location[pid] for task, pid in at(model).items()}
        for name, pin in pins.items():
            active = f"Partition {name.split()[1].partition('-')[0]}"
            may_have = {m.location for m in members if m.holds_standbys or name == active}
            if pin.location in may_have and (name == active or found[active] != pin.location):
                rivals = {n for n, p in pins.items() if p == pin and active in n and n != name}
                assert found.get(name) == pin.location or rivals
        for _ in range(6):
            group = replace(group, model=plan.model(group))
        assert plan.model(group) == group.model


def test_a_pin_is_to_the_processor_with_the_fewest_tasks_of_its_location() -> None:
    """And what isn't pinned makes room for it."""
    members = tuple(Member(f"{n}", f"p{n}", "here" if n else "there") for n in range(3))
    plan = JobPlan({"in": 6}, {"in": "kafka"}, 0, by_locality)
    before = GroupView(members, model=plan.model(GroupView(members)))
    own = [task for task, pid in at(plan.model(before)).items() if pid == "p0"]
    model = plan.model(replace(before, pins={task: Pin("here", "u") for task in own}))
    assert sorted(len(each.tasks) for each in model.containers.values()) == [2, 2, 2]
    assert not {task for task, pid in at(model).items() if pid == "p0"} & set(own)


def test_samzas_own_processors_get_actives_alone_and_their_share_of_them() -> None:
    """Their standbys are on ours; when they are gone, their tasks start there."""
    before = PLAN.model(group("a", "b"))
    locality = {task: f"host-{pid}" for task, pid in at(before).items()}
    mixed = PLAN.model(group("a", "b", "java1", "java2", model=before, locality=locality))
    for pid, container in mixed.containers.items():
        modes = [task.task_mode for task in container.tasks.values()]
        assert modes.count(TaskMode.ACTIVE) == 1
        assert (TaskMode.STANDBY in modes) == (not pid.startswith("java"))
    found = at(mixed)
    locality = {task: f"host-{pid}" for task, pid in found.items()}
    after = at(PLAN.model(group("a", "b", model=mixed, locality=locality)))
    for number in range(4):
        name = f"Partition {number}"
        assert after[name] in {found[name], found[f"Standby-{name}-0"]}


def test_with_one_of_ours_alone_a_standby_is_there_for_the_tasks_of_the_others() -> None:
    """A location that holds no standby counts for none."""
    found = at(PLAN.model(group("a", "java1")))
    own = {name for name, pid in found.items() if pid == "a" and not name.startswith("Standby")}
    standbys = {name for name in found if name.startswith("Standby")}
    assert len(own) == 2
    assert standbys == {f"Standby-Partition {n}-0" for n in range(4) if f"Partition {n}" not in own}
