"""Single steps that no scene comes to by itself: requests, deployments, journals, leases, places."""

from __future__ import annotations

import dataclasses
import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rpds import HashTrieMap

from samza_dagster.coordinator.durable import changed
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement import requests, texts
from samza_dagster.placement.certificates import digest_of
from samza_dagster.placement.codec import group_to_json
from samza_dagster.placement.commands import DeleteRequest, StopContainer, WriteResponse
from samza_dagster.placement.draft import Draft, GroupStep
from samza_dagster.placement.events import JobDeployed, RequestArrived, RequestRefused
from samza_dagster.placement.failures import LONGEST_PAUSE_MS
from samza_dagster.placement.indexing import rebuilt
from samza_dagster.placement.leases import beat_every_ms, grant_ms, over_ms
from samza_dagster.placement.ownership import is_starting
from samza_dagster.placement.places import ranked
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import (
    End,
    Ended,
    Fencing,
    Group,
    Host,
    Incarnation,
    JobState,
    Lag,
    Limits,
    Orphan,
    Phase,
    PlacementAsk,
    Processor,
    Role,
)
from samza_dagster.placement.verification import Rule, verify
from tests.simulation.hosts import Trouble
from tests.simulation.judges.violation import ACTED_ONCE, InvariantViolated
from tests.simulation.moves import Move
from tests.unit.placement.scenes import (
    GROUPS,
    HOSTS,
    JOBS,
    QUICK,
    Scene,
    ask,
    fresh,
    job,
    own,
    running,
    stored_and_read,
)
from tests.unit.placement.words import take

pytestmark = pytest.mark.unit


def test_failed_starts_pause_a_little_longer_each_time() -> None:
    """Half a second times their number; each on another host than the last."""
    world = running(groups={"0": ("0",)})
    for host in HOSTS:
        world.trouble(host, Trouble.NO_START)
    world.crash("0")
    times: list[int] = []
    while len(times) < 4:
        seen = len(world.sent(cmd.StartContainer))
        world.until(lambda seen=seen: len(world.sent(cmd.StartContainer)) > seen)
        times.append(world.now_ms)
    assert [later - sooner for sooner, later in pairwise(times)] == [
        500,
        1_000,
        1_500,
    ]
    hosts = [host for _, host in world.started()]
    assert all(one != next_ for one, next_ in pairwise(hosts))


def test_execution_ids_and_epochs_never_repeat_and_are_safe_in_paths() -> None:
    """Whatever the job is called."""
    world = fresh(job="my job/ä")
    world.deploy(GROUPS)
    world.settle()
    world.submit(ask("0", "LAST_SEEN"))
    world.settle()
    started = world.sent(cmd.StartContainer)
    assert len({start.execution_id for start in started}) == len(started) == 5
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", start.execution_id) for start in started)
    assert started[-1].execution_id.endswith("-0-000005")


def test_a_request_that_arrives_as_a_failover_is_due_waits_for_the_failover() -> None:
    """Who was due goes first: the move of its standby that was under way is over by then."""
    world = take(
        job("two pairs; retry_count 1; retry_window_ms 1000000"), "0 dies 2 times; 0 is waiting"
    )
    world.fill("host-3")
    world.submit(ask("0-0", "host-3", expiry_ms=10 * LONGEST_PAUSE_MS))
    world.lose("host-1")
    due_ms = world.processor("0").not_before_ms
    state = step(world.state, ev.CoordinatorRestarted(due_ms)).state
    assert state.groups["0"].action is not None
    told = step(state, ev.RequestArrived(due_ms, ask("0", "host-4", uuid="u2")))
    assert told.state.groups["0"].failover is not None
    (said,) = (c for c in told.commands if isinstance(c, cmd.WriteResponse) and c.uuid == "u2")
    assert said.message == "Request is accepted; waits until 0 has failed over"


def failed_over_by_itself() -> tuple[Scene, str]:
    """The host of 0 is lost, and the coordinator fails over; and the incarnation that it was."""
    world = running(limits=QUICK)
    sick = world.execution("0")
    world.lose("host-1")
    assert world.group().failover is not None
    return world, sick


def test_a_heart_that_fails_an_active_over_that_has_just_done_so_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No fail-over that waited for it begins after its check-in; one asked for since may."""

    def forgets(_step: GroupStep, _active_id: str) -> None:
        return None

    monkeypatch.setattr(requests, "fail_needless_failovers", forgets)
    world, _ = failed_over_by_itself()
    world.submit(own(RequestKind.FAIL_OVER, "0", uuid="u1"))
    with pytest.raises(InvariantViolated, match=f"{ACTED_ONCE}.*0 had failed over by itself"):
        world.until_all_run()
    monkeypatch.undo()
    world, _ = failed_over_by_itself()
    world.until_all_run()
    world.submit(own(RequestKind.FAIL_OVER, "0", uuid="u2"))
    world.until_all_run()
    assert world.outcome("u2")[0] == "SUCCEEDED"


def test_a_orphan_whose_successor_has_come_and_gone_is_not_taken_back() -> None:
    """The successor wrote to the changelog: what the older one has in its store is the past.

    Its own end, by its lease, is no longer the last that is known of its processor.
    """
    older = Incarnation(9, "j-0-000009", "host-1", "j-request-000009")
    last = End("j-0-000011", 11, "host-2", Ended.DEAD, 50, "host-2 saw it dead")
    orphan = Orphan("0", older, lost_at_ms=10, lease_ends_ms=None, ran=True, end=last)
    waiting = Processor("0", Role.ACTIVE, Phase.WAITING, last_end=last, not_before_ms=10_000)
    state = rebuilt(
        JobState(
            "j",
            "run-1",
            groups=HashTrieMap({"0": Group("0", {"0": waiting}, orphans=(orphan,))}),
            hosts=HashTrieMap({"host-1": Host("host-1", alive=True, registered=True)}),
            next_epoch=12,
        )
    )
    taken = step(state, ev.ContainerCheckedIn(100, older.execution_id, "host-1"))
    assert taken.commands == (cmd.StopContainer(older.execution_id, "host-1"),)
    assert taken.state.groups["0"].processors["0"].incarnation is None
    own_end = last.evolve(epoch=8, execution_id="j-0-000008")
    group = state.groups["0"].evolve(
        processors={"0": waiting.evolve(last_end=own_end)},
        orphans=(orphan.evolve(end=own_end),),
    )
    nothing_since = state.evolve(groups=state.groups.insert("0", group))
    taken = step(nothing_since, ev.ContainerCheckedIn(100, older.execution_id, "host-1"))
    assert taken.state.groups["0"].processors["0"].incarnation == older


def test_a_lease_that_was_over_stays_so_beside_a_successor_that_nobody_has_seen_end() -> None:
    """The successor's host fell silent, too: it may own the tasks, and the older one mustn't."""
    older = Incarnation(9, "j-0-000009", "host-1", "j-request-000009")
    newer = Incarnation(11, "j-0-000011", "host-2", "j-request-000011")
    over = End("j-0-000009", 9, "host-1", Ended.LEASE, 50, "its lease ended at 50, it is 50")
    before = Orphan("0", older, 10, 50, ran=True, ended=Ended.LEASE, end=over)
    successor = Orphan("0", newer, 60, 10_000, ran=True)
    waiting = Processor("0", Role.ACTIVE, Phase.WAITING, last_end=over, not_before_ms=10_000)
    state = rebuilt(
        JobState(
            "j",
            "run-1",
            groups=HashTrieMap({"0": Group("0", {"0": waiting}, orphans=(before, successor))}),
            hosts=HashTrieMap({h: Host(h, alive=False) for h in ("host-1", "host-2")}),
            next_epoch=12,
            now_ms=70,
        )
    )
    back = ev.HostRegistered(100, "host-1", frozenset({older.execution_id}))
    taken = step(state, back)
    assert taken.commands == (cmd.StopContainer(older.execution_id, "host-1"),)
    orphans = {orphan.incarnation.epoch: orphan for orphan in taken.state.groups["0"].orphans}
    assert orphans[9].ended is Ended.LEASE
    alone = state.evolve(
        groups=state.groups.insert("0", Group("0", {"0": waiting}, orphans=(before,)))
    )
    (again,) = step(alone, back).state.groups["0"].orphans
    assert again.ended is None


# Single steps of requests and deployments that no scene comes to by itself.

LONGEST_MESSAGE = 16_000
"""Characters: what brokers take of any record."""
LONG = "a key that is no JSON array; " * 100_000


def refused(why: str) -> tuple[str, tuple[object, ...], JobState]:
    """What a request is told that comes while no container could start, all that is done, and the state then."""
    deployed = step(JobState("job-1"), ev.JobDeployed(1, "d", {"0": ("0", "0-0")}, {}, Limits()))
    asked = ev.RequestArrived(3, PlacementAsk("u", "d", "0", "LAST_SEEN", 2), why)
    after = step(deployed.state, asked)
    (told,) = responses(after.commands)
    assert told.status == "BAD_REQUEST"
    return told.message, after.commands, after.state


def responses(commands: tuple[object, ...]) -> list[WriteResponse]:
    return [c for c in commands if isinstance(c, WriteResponse)]


def test_a_request_is_refused_while_no_container_could_start() -> None:
    """BAD_REQUEST with the reason, taken off the stream, nothing queued and nothing stopped."""
    message, commands, state = refused("offset 7: a key that is no JSON array")
    assert "offset 7" in message
    assert DeleteRequest("u") in commands
    assert not [c for c in commands if isinstance(c, StopContainer)]
    assert state.groups["0"].queue == ()


def test_a_thousand_bad_records_make_no_refusal_that_cant_be_written() -> None:
    """Each is named; a stranger may write as many as it likes."""
    message, *_ = refused(LONG)
    assert message.startswith("BAD_REQUEST reason: ")
    assert len(message) == LONGEST_MESSAGE
    assert message.endswith("\N{HORIZONTAL ELLIPSIS}")


def test_what_can_be_written_is_told_to_its_last_letter() -> None:
    """One more, and the end is left out."""
    why = "x" * (LONGEST_MESSAGE - len(refused("x")[0]) + 1)
    whole, *_ = refused(why)
    assert (len(whole), whole[-1]) == (LONGEST_MESSAGE, "x")
    assert refused(why + "x")[0] == whole[:-1] + "\N{HORIZONTAL ELLIPSIS}"


def test_a_thousand_hosts_without_room_make_no_answer_that_cant_be_written() -> None:
    """What each of them lacks is told; the first are enough."""
    world = running()
    world.submit(ask("0", "host-3"))
    [request] = world.sent(cmd.RequestResource)
    taken = step(world.state, ev.RequestExpired(world.now_ms, request.request_id, LONG))
    (told,) = responses(taken.commands)
    assert told.status == "FAILED"
    assert len(told.message) == LONGEST_MESSAGE
    assert len(json.dumps(group_to_json(taken.state.groups["0"]))) < 2 * LONGEST_MESSAGE


@pytest.mark.parametrize(
    ("known", "more"), [(1, ""), (40, ""), (41, " or 1 more"), (43, " or 3 more")]
)
def test_of_many_processors_forty_are_named(known: int, more: str) -> None:
    """As many as one reads."""
    names = [f"{number}-0" for number in range(known)]
    assert texts.name_one_of(names) == f"name one of {', '.join(names[:40])}{more}"


# Which requests are taken, refused, dropped or queued, and in what order.


def test_a_request_of_another_deployment_is_only_deleted() -> None:
    """Nothing is written, nothing is remembered."""
    world = running()
    before = world.state
    world.submit(ask("0", "host-3", deployment_id="run-0"))
    assert world.log == [cmd.DeleteRequest("u1")]
    assert world.state == before


def test_a_duplicate_uuid_is_only_deleted_and_the_first_outcome_stands() -> None:
    """Also with other contents, also after the first has ended."""
    world = running()
    world.submit(ask("0", "host-3"))
    world.settle()
    told, world.log[:] = world.responses_to("u1"), []
    world.submit(ask("1", "host-1"))
    assert world.log == [cmd.DeleteRequest("u1")]
    assert world.responses_to("u1") == told


def test_uuids_are_forgotten_first_in_first_out_but_never_in_flight() -> None:
    """Beyond the limit the oldest goes; one in flight or queued stays known."""
    world = running(limits=Limits(remembered_uuids=2))
    world.submit(ask("0", "host-3", uuid="a"))
    world.submit(ask("0", "host-4", uuid="b"))
    for uuid in ("c", "d", "e"):
        world.submit(ask("9", "host-3", uuid=uuid))
    assert sorted(world.state.uuids) == ["d", "e"]
    for uuid in ("a", "b"):
        world.log.clear()
        world.submit(ask("0", "host-3", uuid=uuid))
        assert world.log == [cmd.DeleteRequest(uuid)]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=40))
def test_what_was_refused_unread_is_remembered_apart_and_displaces_no_outcome(
    arrivals: list[tuple[bool, int]],
) -> None:
    """Two memories, each first in, first out; a UUID in either is a duplicate."""
    limits = Limits(remembered_uuids=3)
    state = step(JobState("demo"), JobDeployed(0, "run-1", {}, {}, limits)).state
    taken, refused = list[str](), list[str]()
    for unread, number in arrivals:
        uuid = f"u{number}"
        event = RequestRefused(0, uuid) if unread else RequestArrived(0, ask("9", "h", uuid=uuid))
        result = step(state, event)
        new = uuid not in taken and uuid not in refused
        answered = [c for c in result.commands if isinstance(c, cmd.WriteResponse)]
        assert len(answered) == (new and not unread)
        if new:
            memory = refused if unread else taken
            memory.append(uuid)
            del memory[:-3]
        state = stored_and_read(result.state)
        assert state == result.state
        assert sorted(state.uuids, key=state.uuids.__getitem__) == taken
        assert sorted(state.refused, key=state.refused.__getitem__) == refused


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=40))
def test_each_step_writes_what_it_remembers_and_deletes_what_it_forgets(
    arrivals: list[tuple[bool, int]],
) -> None:
    """The records that a step changes are those by which the states differ."""
    limits = Limits(remembered_uuids=3)
    state = step(JobState("demo"), JobDeployed(0, "run-1", {}, {}, limits)).state
    topic: dict[str, object] = dict(changed(JobState("demo"), state, leader_epoch=1))
    for unread, number in arrivals:
        uuid = f"u{number}"
        event = RequestRefused(0, uuid) if unread else RequestArrived(0, ask("9", "h", uuid=uuid))
        after = step(state, event).state
        for key, value in changed(state, after, leader_epoch=1):
            topic.pop(key, None)
            if value is not None:
                topic[key] = value
        state = after
    kept = [key for key in topic if key.startswith(("uuid/", "refused/"))]
    assert {k.partition("/")[2] for k in kept if k.startswith("uuid/")} == set(state.uuids)
    assert {k.partition("/")[2] for k in kept if k.startswith("refused/")} == set(state.refused)


def test_what_could_begin_at_a_take_over_is_told_that_the_hosts_are_waited_for() -> None:
    """Its limit was raised meanwhile; a leader that has heard of no host yet begins nothing."""
    world = running(limits=Limits(max_concurrent_actions=1))
    world.submit(ask("0", "host-3", uuid="w"))
    world.submit(ask("1", "LAST_SEEN", uuid="x"))
    state = world.state.evolve(limits=world.state.limits.evolve(max_concurrent_actions=2))
    taken = step(state, ev.CoordinatorRestarted(world.now_ms))
    (said,) = [c for c in taken.commands if isinstance(c, cmd.WriteResponse) and c.uuid == "x"]
    assert said.message == texts.accepted(
        "waits until the hosts have registered with the coordinator that took over"
    )


# An agent that registers with another journal knows nothing of what was started on those before.

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


# Whether a start is still wanted: whoever has it to repeat asks between two steps.


def test_only_who_has_not_checked_in_is_starting() -> None:
    """Not another of its group that has no process, nor one that runs, nor one unheard of."""
    world = running()
    world.evict("0-0")
    assert world.processor("0-0").incarnation is None
    runs = world.execution("0")
    assert not is_starting(world.state, runs)
    assert not is_starting(world.state, "demo-0-000099")
    world.make_room("host-2")
    world.until_phase("0-0", Phase.STARTING)
    assert is_starting(world.state, world.execution("0-0"))
    assert not is_starting(world.state, runs)


def test_an_active_that_is_down_is_not_what_starts() -> None:
    """It comes first in its group, and has nothing that could be compared."""
    world = running()
    world.evict("0")
    assert world.processor("0").incarnation is None
    assert not is_starting(world.state, world.execution("0-0"))


# How long a host may go on without word from a leader that commits.

LIMITS = Limits(lease_ms=30_000, lease_bound_ms=4_000)


@pytest.mark.parametrize(
    ("since_commit_ms", "granted_ms"),
    [(0, 30_000), (1, 29_999), (29_999, 1), (30_000, 0), (90_000, 0), (-5_000, 30_000)],
)
def test_a_lease_is_granted_from_the_last_commit_on(since_commit_ms: int, granted_ms: int) -> None:
    """Never longer than a lease, and nothing by a leader that commits no more."""
    assert grant_ms(LIMITS, 100_000, 100_000 - since_commit_ms) == granted_ms


def test_a_leader_commits_three_times_in_a_lease() -> None:
    """But once in a millisecond at most."""
    lengths = (30_000, 6, 2, 1)
    assert [beat_every_ms(Limits(lease_ms=ms)) for ms in lengths] == [10_000, 2, 1, 1]


def test_a_lease_is_over_once_clocks_that_run_apart_agree() -> None:
    """The bound is added."""
    assert over_ms(LIMITS, 1_000) == 35_000


# Which standby's place is the best, where the racks of their hosts tell them apart.


def test_a_place_in_a_rack_of_its_own_goes_before_one_that_is_ready_sooner() -> None:
    """An agent named another rack since they started: two standbys are in one, the third isn't."""
    places = JOBS["an active and three standbys"]
    world = running(places, groups={"0": tuple(places)})
    racks = {"host-1": "a", "host-2": "b", "host-3": "c", "host-4": "b"}
    hosts = {
        name: world.state.hosts[name].evolve(fault_domain=rack) for name, rack in racks.items()
    }
    lags = world.state.lags.update(
        {pid: Lag(pid, 10 * number, None, world.now_ms) for number, pid in enumerate(places)}
    )
    state = world.state.evolve(hosts=HashTrieMap(hosts), lags=lags)
    assert ranked(Draft(state, world.now_ms).at("0"), "0") == ["0-1", "0-0", "0-2"]
