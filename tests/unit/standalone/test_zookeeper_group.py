"""A group as it lies in a virtual ZooKeeper, whose followers are behind and whose nodes somebody changes by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import pytest
from members import container, model

from samza_dagster.errors import Fenced, InvalidInput
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.metadata.zookeeper_store import segments_of
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE, REQUEST
from samza_dagster.standalone.commands import (
    EndBarrier,
    JoinBarrier,
    Publish,
    ReportRunning,
    StartWork,
)
from samza_dagster.standalone.group import (
    Barrier,
    BarrierState,
    GroupView,
    LocalStores,
    Pin,
    Running,
)
from samza_dagster.standalone.requests import SetPin, SetRestart
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup
from samza_dagster.standalone.zookeeper_placement import placement_store
from tests.simulation.standalone_process import PATHS
from tests.simulation.standalone_server import Server, Session

pytestmark = pytest.mark.unit


class _Behind:
    """A follower that hears of nothing by itself."""

    def before(self) -> None:
        """The call is carried out."""

    def after_write(self) -> None:
        """Its answer arrives."""

    def seen(self, seen: int, newest: int) -> int:
        """What it has shown before."""
        del newest
        return seen


def _group(server: Server, on_change: Callable[[], None] = lambda: None) -> ZooKeeperGroup:
    session = Session(server, _Behind())
    made = ZooKeeperGroup(session, PATHS, on_change)  # pyright: ignore[reportArgumentType]
    made.prepare()
    return made


def _ask(server: Server, uuid: str, at_ms: int = 0) -> None:
    """As a client does."""
    store = ContainerPlacementMetadataStore(placement_store(Session(server), PATHS))  # pyright: ignore[reportArgumentType]
    store.write_request("standalone", "1", f"h{uuid[-1]}", timestamp_ms=at_ms, uuid=uuid)


def _agreed(group: ZooKeeperGroup, version: int, **tasks: str) -> None:
    """That version, which a member of it publishes."""
    group.publish(Publish(version, model(**tasks), group.view(None).revision))
    for processor_id in tasks:
        group.join(JoinBarrier(version), processor_id)
    group.end_barrier(EndBarrier(version, BarrierState.DONE))


def test_a_reading_has_all_that_was_written_before_it() -> None:
    """Whatever the follower has shown before; so has the list of those whom the brokers let in."""
    server = Server(30_000, lambda: 0)
    first, second = _group(server), _group(server)
    sequence = first.register("a", "h0", LocalStores())
    assert [each.processor_id for each in first.view(sequence).members] == ["a"]
    second.register("b", "h1", LocalStores())
    assert len(first.registered()) == 2
    third = _group(server)
    third.register("c", "h2", LocalStores())
    assert [each.processor_id for each in first.view(sequence).members] == ["a", "b", "c"]


def test_a_registration_whose_answer_was_lost_is_taken_up() -> None:
    """It is found by its session, also by a follower that hasn't heard of it."""
    group = _group(Server(30_000, lambda: 0))
    sequence = group.register("a", "h0", LocalStores())
    assert group.register("a", "h0", LocalStores()) == sequence


def test_no_number_of_a_version_is_used_twice_though_its_nodes_are_gone() -> None:
    """Whoever has read the version of before would take the new one for it: the agreed version, or the version's own
    node, says which there was."""
    server = Server(30_000, lambda: 0)
    group = _group(server)
    sequence = group.register("a", "h0", LocalStores())
    _agreed(group, 1, a="1")
    _agreed(group, 2, a="1 2")
    for path in (f"{PATHS.models}/2", f"{PATHS.barriers}/barrier_2", PATHS.agreed_version):
        server.delete_all(path)
        seen = group.view(sequence)
        assert seen.highest == 2
    assert seen.version == 1


def test_who_leads_goes_by_the_newest_older_version_that_can_be_read() -> None:
    """Also where it has read others before, which somebody has overwritten since."""
    server = Server(30_000, lambda: 0)
    group = _group(server)
    sequence = group.register("a", "h0", LocalStores())
    for version in (1, 2, 3):
        _agreed(group, version, a=f"{version}")
    assert len(group.view(sequence).history) == 2
    _agreed(group, 4, a="4")
    server.delete_all(f"{PATHS.models}/4")
    seen = group.view(sequence)
    assert seen.before is not None
    assert list(seen.before.containers["a"].tasks) == ["3"]
    assert [list(each) for each in seen.history] == [["3"], ["2"], ["1"]]
    (garbage,) = segments_of(b"garbage")
    for version in (2, 3):
        server.set(f"{PATHS.models}/{version}/0", garbage, -1, 0)
    later = ZooKeeperGroup(Session(server), PATHS, lambda: None)  # pyright: ignore[reportArgumentType]
    for reader in (group, later):
        before = reader.view(sequence).before
        assert before is not None
        assert list(before.containers["a"].tasks) == ["1"]


def test_requests_are_read_in_the_order_in_which_they_were_made() -> None:
    """Whatever their ids are: of two for one task the later one is the last to be carried out."""
    server = Server(30_000, lambda: 0)
    group = _group(server)
    sequence = group.register("a", "h0", LocalStores())
    for at_ms, digit in enumerate("937"):
        _ask(server, f"00000000-0000-0000-0000-00000000000{digit}", at_ms)
    assert [each.destination_host for each in group.view(sequence).requests] == ["h9", "h3", "h7"]


def _registered(
    server: Server, *ids: str, heard: set[str] | None = None
) -> tuple[list[ZooKeeperGroup], list[str]]:
    """Processors in the order in which they came, and who has `heard` of a change."""
    told = set[str]() if heard is None else heard
    groups = [_group(server, partial(told.add, pid)) for pid in ids]
    made = zip(groups, ids, strict=True)
    return groups, [each.register(pid, f"h{pid}", LocalStores()) for each, pid in made]


def test_a_group_of_another_protocol_is_left_alone() -> None:
    """Its nodes mean something else."""
    server = Server(30_000, lambda: 0)
    _group(server)
    server.set(PATHS.root, b"2.0", -1, 0)
    with pytest.raises(InvalidInput, match=r"b'2\.0'.*1\.0"):
        _group(server)


U1, U2 = (f"00000000-0000-0000-0000-00000000000{digit}" for digit in (1, 2))
_EVENTS: Mapping[str, tuple[Callable[[ZooKeeperGroup, list[str]], object], str]] = {
    "nothing": (lambda b, ids: b.view(ids[1]), ""),
    "somebody registers": (lambda b, _: b.register("d", "hd", LocalStores()), "a"),
    "the first leaves": (lambda b, ids: b.leave(ids[0]), "ab"),
    "the second leaves": (lambda b, ids: b.leave(ids[1]), "abc"),
    "the third leaves": (lambda b, ids: b.leave(ids[2]), "ac"),
    "a version is published": (
        lambda b, _: b.publish(Publish(2, model(a="1", b="2"), b.view(None).revision)),
        "abc",
    ),
    "somebody joins its barrier": (lambda b, _: b.join(JoinBarrier(1), "b"), "a"),
    "its barrier ends": (lambda b, _: b.end_barrier(EndBarrier(1, BarrierState.DONE)), "abc"),
    "the second says what it runs": (
        lambda b, ids: b.report(ReportRunning(Running(1)), ids[1]),
        "a",
    ),
    "the second is to restart": (lambda b, _: b.place(SetRestart("b", U1)), "b"),
    "tasks have started": (
        lambda b, _: b.write_locality(StartWork((container("b", "1"),), (), model()), "hb"),
        "",
    ),
}


@pytest.mark.parametrize("event", _EVENTS)
def test_each_hears_of_what_it_has_to_do_with_and_of_nothing_else(event: str) -> None:
    """A leader of all members and what they say; the others of who is before them, of versions, and of themselves."""
    happens, hear = _EVENTS[event]
    server, heard = Server(30_000, lambda: 0), set[str]()
    groups, sequences = _registered(server, "a", "b", "c", heard=heard)
    groups[1].report(ReportRunning(Running(0)), sequences[1])
    groups[1].publish(Publish(1, model(a="1", b="2"), 0))
    comes = _group(server) if event == "somebody registers" else groups[1]
    for group, sequence in zip(groups, sequences, strict=True):
        group.view(sequence)
    server.fired.clear()
    heard.clear()
    happens(comes, sequences)
    for watch in server.fired:
        watch(None)
    assert "".join(sorted(heard)) == hear


def test_a_request_wakes_the_leader_before_its_value_is_written_and_once_it_is() -> None:
    """A client makes the node first: whoever reads it then looks again."""
    server, heard = Server(30_000, lambda: 0), set[str]()
    (a, b), sequences = _registered(server, "a", "b", heard=heard)
    path = f"{PATHS.placement}/{PLACEMENT_NAMESPACE}/{U1}.{REQUEST}"
    for happens in (lambda: server.create(path, None, 0, 0), partial(_ask, server, U1)):
        a.view(sequences[0])
        b.view(sequences[1])
        server.fired.clear()
        heard.clear()
        happens()
        for watch in server.fired:
            watch(None)
        assert heard == {"a"}
    assert [each.uuid for each in a.view(sequences[0]).requests] == [U1]


def test_who_does_not_lead_sees_of_what_is_asked_what_is_its_own() -> None:
    """And who looks on sees all."""
    server = Server(30_000, lambda: 0)
    (a, b), sequences = _registered(server, "a", "b")
    _agreed(a, 1, a="1", b="2")
    a.place(SetPin("1", Pin("ha", U1)))
    restarts = {"a": U1, "b": U2}
    running = {sequence: Running(1, silent_ms=n) for n, sequence in enumerate(sequences)}
    for pid, uuid in restarts.items():
        a.place(SetRestart(pid, uuid))
    for group, sequence in zip((a, b), sequences, strict=True):
        group.report(ReportRunning(running[sequence]), sequence)
    _ask(server, U1)
    own = b.view(sequences[1])
    assert (own.restarts, own.running) == ({"b": U2}, {sequences[1]: running[sequences[1]]})
    assert (own.requests, own.pins, own.locality, own.is_whole) == ((), {}, {}, False)
    for seen in (a.view(sequences[0]), b.view(None)):
        assert (seen.restarts, seen.running) == (restarts, running)
        assert (len(seen.requests), seen.pins, seen.is_whole) == (1, {"1": Pin("ha", U1)}, True)
    assert not a.view(sequences[0], is_whole=False).is_whole
    a.place(SetPin("1", None))
    a.place(SetRestart("a", None))
    a.place(SetRestart("a", None))
    seen = a.view(sequences[0])
    assert (seen.restarts, seen.pins) == ({"b": U2}, {})


def test_tasks_are_where_their_containers_have_started_and_standbys_beside_them() -> None:
    """Of those Samza's own read the actives' alone."""
    server = Server(30_000, lambda: 0)
    (group, _), _ = _registered(server, "a", "b")
    for location in ("h0", "h1"):
        containers = (container("a", "1", "2"), container("a-0", "standby3"))
        group.write_locality(StartWork(containers, (), model()), location)
    assert group.locality() == {"1": "h1", "2": "h1", "standby3": "h1"}
    assert server.node(PATHS.task_locality).children == {"1", "2"}


def test_of_two_that_publish_one_version_the_first_has_it_whole() -> None:
    """Nothing of the other's is there, and it goes on: it reads what was published. So does one that knew an older version."""
    server = Server(30_000, lambda: 0)
    (a, b), _ = _registered(server, "a", "b")
    revision = a.view(None).revision
    a.publish(Publish(1, model(a="1"), revision))
    b.publish(Publish(1, model(b="1"), revision))
    b.publish(Publish(2, model(b="1"), revision))
    seen = b.view(None)
    assert (seen.version, seen.containers.keys()) == (1, {"a"})
    assert seen.highest == 2


def test_a_barrier_has_one_end() -> None:
    """Whoever ends it first; the version is agreed on by that alone. Who joins twice, or too late, has joined."""
    server = Server(30_000, lambda: 0)
    (group,), _ = _registered(server, "a")
    done, timed_out = BarrierState.DONE, BarrierState.TIMED_OUT
    for version, first, later in ((1, timed_out, done), (2, done, timed_out)):
        group.publish(Publish(version, model(a="1"), group.view(None).revision))
        group.join(JoinBarrier(version), "a")
        group.join(JoinBarrier(version), "a")
        for state in (first, later):
            group.end_barrier(EndBarrier(version, state))
            seen = group.view(None)
            assert seen.barrier == Barrier(first, frozenset("a"))
            assert seen.agreed == (version if first is done else 0)
    group.join(JoinBarrier(9), "a")
    group.end_barrier(EndBarrier(9, done))
    assert replace(group.view(None), read_ms=seen.read_ms) == seen


def test_ten_versions_are_kept() -> None:
    """Whoever was away is known by these; older ones would fill ZooKeeper."""
    server = Server(30_000, lambda: 0)
    (group,), (sequence,) = _registered(server, "a")
    for version in range(1, 13):
        _agreed(group, version, a=f"{version}")
    kept = [f"{version}" for version in range(3, 13)]
    assert server.node(PATHS.models).children == set(kept)
    assert server.node(PATHS.barriers).children == {f"barrier_{version}" for version in kept}
    assert [list(each) for each in group.view(sequence).history] == [[n] for n in kept[-2::-1]]


@pytest.mark.parametrize(
    ("data", "newest"),
    [(b"2", 2), (b"1", 2), (b"7", 2), (b"one", 2), (b"", 2)],
)
def test_nobody_goes_back_to_an_older_version_whatever_its_node_says(
    data: bytes, newest: int
) -> None:
    """Somebody has overwritten it: the newest barrier tells, and that is said."""
    server = Server(30_000, lambda: 0)
    (group,), (sequence,) = _registered(server, "a")
    _agreed(group, 1, a="1")
    _agreed(group, 2, a="1 2")
    server.set(PATHS.version, data, -1, 0)
    seen = group.view(sequence)
    assert (seen.version, seen.agreed, seen.work_of("a")) == (newest, 2, container("a", "1", "2"))
    assert bool(seen.unreadable) == (data != b"2")
    assert seen.highest == max(2, int(data) if data.isdigit() else 0)


def test_a_barrier_that_nobody_can_read_is_none_and_is_said() -> None:
    """The next version mends it."""
    server = Server(30_000, lambda: 0)
    (group,), (sequence,) = _registered(server, "a")
    _agreed(group, 1, a="1")
    server.set(PATHS.barrier_state(1), b"PERHAPS", -1, 0)
    seen = group.view(sequence)
    assert seen.barrier is None
    assert any("PERHAPS" in each for each in seen.unreadable)


def test_a_registration_is_another_one_in_a_group_that_was_made_anew() -> None:
    """Its numbers begin at 0 again: by the old name the brokers would let in whom they shut out."""
    clock = [1_000]
    server = Server(30_000, lambda: clock[0])
    (first,), (sequence,) = _registered(server, "a")
    before = first.registration(sequence)
    assert first.registered() == {before}
    server.delete_all(PATHS.root)
    clock[0] = 2_000
    (second,), (again,) = _registered(server, "a")
    assert sequence == again
    assert second.registered() != {before}
    onlooker = ZooKeeperGroup(Session(server), PATHS, lambda: None)  # pyright: ignore[reportArgumentType]
    assert onlooker.registered() == second.registered()


def test_who_leaves_takes_what_it_said_with_it() -> None:
    """Twice is once."""
    server = Server(30_000, lambda: 0)
    (a, b), sequences = _registered(server, "a", "b")
    for version in (1, 2):
        b.report(ReportRunning(Running(version)), sequences[1])
    assert a.view(sequences[0]).running == {sequences[1]: Running(2)}
    b.leave(sequences[1])
    b.leave(sequences[1])
    seen = a.view(sequences[0])
    assert ([each.processor_id for each in seen.members], seen.running) == (["a"], {})


def test_a_group_that_nobody_has_joined_yet_is_empty() -> None:
    """Who looks on makes no node of it."""
    server = Server(30_000, lambda: 0)
    group = ZooKeeperGroup(Session(server), PATHS, lambda: None)  # pyright: ignore[reportArgumentType]
    seen = group.view(None)
    assert seen == GroupView(read_ms=seen.read_ms)
    assert not server.node("").children


def test_nodes_that_are_no_versions_stop_nobody() -> None:
    """Somebody has made them by hand."""
    server = Server(30_000, lambda: 0)
    (group,), (sequence,) = _registered(server, "a")
    for path in (f"{PATHS.models}/odd", f"{PATHS.barriers}/barrier_²", f"{PATHS.barriers}/7x"):
        server.create(path, None, 0, 0)
    _agreed(group, 1, a="1")
    seen = group.view(sequence)
    assert (seen.version, seen.agreed, seen.highest) == (1, 1, 1)


@pytest.mark.parametrize(
    "write",
    [
        lambda g: g.publish(Publish(3, model(a="1"), g.view(None).revision)),
        lambda g: g.join(JoinBarrier(2), "a"),
        lambda g: g.end_barrier(EndBarrier(2, BarrierState.TIMED_OUT)),
        lambda g: g.write_locality(StartWork((container("a", "1"),), (), model()), "h9"),
        lambda g: g.place(SetPin("1", Pin("h9", U1))),
    ],
    ids=["publish", "join", "end_barrier", "write_locality", "place"],
)
def test_who_has_lost_its_node_writes_nothing(write: Callable[[ZooKeeperGroup], None]) -> None:
    """A processor that was paused beyond its session: another may lead by then, and have its tasks."""
    server = Server(30_000, lambda: 0)
    group, other = _group(server), _group(server)
    sequence = group.register("a", "h0", LocalStores())
    other.register("b", "h1", LocalStores())
    _agreed(other, 1, a="1")
    other.publish(Publish(2, model(b="1"), other.view(None).revision))
    assert group.view(sequence).highest == 2
    server.delete_all(f"{PATHS.processors}/{sequence}")
    before = dict(server.nodes)
    with pytest.raises(Fenced):
        write(group)
    assert server.nodes == before
