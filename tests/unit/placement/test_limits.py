"""How many actions at once: one in a group, so many in the job, so many on a host; in what order."""

from __future__ import annotations

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import texts
from samza_dagster.placement.events import ResourceAllocated
from samza_dagster.placement.state import AskKind, Limits, Phase, Stage
from samza_dagster.simulation.hosts import Trouble
from samza_dagster.simulation.steps import handle
from tests.unit.placement.scenes import HOSTS, Scene, ask, own, running

pytestmark = pytest.mark.unit

MANY = {str(n): (str(n),) for n in range(4)}
SPREAD = {str(n): f"host-{n + 1}" for n in range(4)}
REPLICAS = {"0": ("0", "0-0", "0-1")}
REPLICA_PLACES = {"0": "host-1", "0-0": "host-2", "0-1": "host-3"}


def many(limits: Limits, places: dict[str, str] | None = None) -> Scene:
    return running(places or SPREAD, groups=MANY, limits=limits)


def began(world: Scene) -> list[str]:
    """Uuids in the order in which their actions began."""
    responses = [r for r in world.responses() if r.status == "IN_PROGRESS"]
    return list(dict.fromkeys(response.uuid for response in responses))


# -- the group -----------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [("0", "0-0"), ("0-0", "0"), ("0-0", "0-1")])
def test_one_action_in_a_group(first: str, second: str) -> None:
    """Active and standby, standby and active, two standbys: all share one lock."""
    world = running(REPLICA_PLACES, groups=REPLICAS)
    world.submit(ask(first, "LAST_SEEN", uuid="a"))
    world.submit(ask(second, "LAST_SEEN", uuid="b"))
    waits = f"waits for action a on {first} of the same group"
    assert world.told("b") == [("ACCEPTED", texts.accepted(waits))]
    world.until_all_run()
    assert world.outcome("a")[0] == world.outcome("b")[0] == "SUCCEEDED"


def test_the_queue_of_a_group_mixes_its_members_by_timestamp() -> None:
    """The oldest first, whoever it is for."""
    world = running(REPLICA_PLACES, groups=REPLICAS)
    world.submit(ask("0", "LAST_SEEN", uuid="first", at_ms=50))
    for uuid, pid, at_ms in (("d", "0-1", 40), ("c", "0", 30), ("b", "0-0", 20)):
        world.submit(ask(pid, "LAST_SEEN", uuid=uuid, at_ms=at_ms))
    world.until_all_run()
    assert began(world) == ["first", "b", "c", "d"]


def test_what_can_not_begin_yet_does_not_hold_up_what_can() -> None:
    """The older request waits for its container, which is down."""
    world = running()
    world.trouble("host-2", Trouble.NO_CHECK_IN)
    world.crash("0-0")
    world.until_phase("0-0", Phase.STARTING)
    world.submit(ask("0-0", "host-3", uuid="older", at_ms=1))
    world.submit(ask("0", "LAST_SEEN", uuid="younger", at_ms=2))
    assert world.outcome("older") == ("ACCEPTED", texts.accepted("waits until 0-0 runs"))
    assert world.outcome("younger")[0] == "IN_PROGRESS"


# -- the job -------------------------------------------------------------------------------


def test_a_way_back_does_not_count() -> None:
    """A container that no host can take must not stop the others' moves."""
    world = many(Limits(max_concurrent_actions=1))
    world.trouble("host-2", Trouble.NO_START)
    world.submit(ask("0", "host-2", uuid="a"))
    world.until_stage(Stage.FALLBACK_SOURCE)
    world.submit(ask("2", "LAST_SEEN", uuid="b"))
    assert world.outcome("b")[0] == "IN_PROGRESS"


def test_a_held_reservation_counts() -> None:
    """It is an action, and somebody is to commit it."""
    world = many(Limits(max_concurrent_actions=1))
    world.submit(ask("0", "host-2", uuid="a", hold=True, expiry_ms=20_000))
    world.until_stage(Stage.HELD)
    world.submit(ask("2", "LAST_SEEN", uuid="b"))
    assert "the job's limit" in world.outcome("b")[1]
    world.control(AskKind.RELEASE, of="a")
    assert world.outcome("b")[0] == "IN_PROGRESS"


# -- the host ------------------------------------------------------------------------------


def test_no_more_actions_than_may_be_leave_a_host() -> None:
    """Its source is a host that an action touches."""
    crowd = dict.fromkeys(MANY, "host-1")
    world = many(Limits(max_actions_per_host=2), crowd)
    for n in range(4):
        world.submit(ask(str(n), f"host-{2 + n % 3}", uuid=f"u{n}"))
    assert began(world) == ["u0", "u1"]
    waits = texts.accepted("waits because 2 actions touch host-1, the limit of a host")
    assert world.told("u2") == [("ACCEPTED", waits)]
    world.until_all_run()
    assert all(world.outcome(f"u{n}")[0] == "SUCCEEDED" for n in range(4))


def test_no_more_actions_than_may_be_go_to_a_host() -> None:
    """So is its named destination."""
    world = many(Limits(max_actions_per_host=1))
    world.submit(ask("0", "host-4", uuid="a"))
    world.submit(ask("1", "host-4", uuid="b"))
    assert "1 actions touch host-4" in world.outcome("b")[1]


def test_a_request_that_waits_for_a_busy_host_does_not_hold_up_younger_ones() -> None:
    """Other hosts have room for action."""
    world = many(Limits(max_actions_per_host=1))
    world.submit(ask("0", "host-4", uuid="a", at_ms=1))
    world.submit(ask("1", "host-4", uuid="b", at_ms=2))
    world.submit(ask("2", "LAST_SEEN", uuid="c", at_ms=3))
    assert began(world) == ["a", "c"]


def test_a_swap_touches_the_standbys_host_too() -> None:
    """Three hosts have their hands full."""
    world = running(limits=Limits(max_actions_per_host=1))
    world.submit(ask("0", "STANDBY", uuid="a"))
    world.submit(ask("1", "host-2", uuid="b"))
    assert "1 actions touch host-2" in world.outcome("b")[1]


def three(places: tuple[str, ...] = ("host-1", "host-2"), *, most: int = 1) -> Scene:
    """Actives alone, on three hosts."""
    groups = {str(n): (str(n),) for n in range(len(places))}
    where = {str(n): host for n, host in enumerate(places)}
    limits = Limits(max_actions_per_host=most)
    return running(where, groups=groups, hosts=HOSTS[:3], limits=limits, slots=8)


def test_a_host_that_was_chosen_counts() -> None:
    """Of two that may go anywhere but to a full host, the second waits for its turn."""
    world = three()
    world.submit(ask("0", "ANY_HOST", uuid="a"))
    world.submit(ask("1", "ANY_HOST", uuid="b"))
    waits = "waits because 1 actions touch each host that it could go to, or are about to choose it"
    assert world.told("b") == [("ACCEPTED", texts.accepted(waits))]
    world.until_stage(Stage.STOPPING)
    action = world.group().action
    assert action is not None
    assert action.chosen_hosts == ("host-3",)
    world.settle()
    assert [world.outcome(uuid)[0] for uuid in "ab"] == ["SUCCEEDED", "SUCCEEDED"]


def test_a_host_at_its_limit_is_not_chosen_while_another_is_legal() -> None:
    """The request leaves it out."""
    world = many(Limits(max_actions_per_host=1))
    world.submit(ask("0", "host-4", uuid="a"))
    world.submit(ask("2", "ANY_HOST", uuid="b"))
    [request] = [r for r in world.sent(cmd.RequestResource) if r.processor_id == "2"]
    assert {"host-4", world.placed("0")} <= set(request.excluded_hosts)


def test_a_host_that_became_full_since_it_was_asked_for_is_given_back() -> None:
    """Another one is asked for, before anything is stopped."""
    world = many(Limits(max_actions_per_host=1), dict.fromkeys(MANY, "host-1") | {"1": "host-2"})
    world.submit(ask("0", "ANY_HOST", uuid="a"))
    [request] = world.sent(cmd.RequestResource)
    world.submit(ask("1", "host-3", uuid="b"))
    world.log.clear()
    handle(world, ResourceAllocated(world.now_ms, request.request_id, "host-3"))
    [again] = world.sent(cmd.RequestResource)
    assert cmd.ReleaseResource(request.request_id) in world.log
    assert "host-3" in again.excluded_hosts
    assert "0" not in world.stopped()


def test_a_displaced_standbys_new_place_counts() -> None:
    """It is chosen for the action."""
    world = running(limits=Limits(max_actions_per_host=1))
    world.submit(ask("0", "STANDBY", uuid="a"))
    world.until_stage(Stage.STOPPING_STANDBY)
    action = world.group().action
    assert action is not None
    [place] = action.chosen_hosts
    there = next(pid for pid in ("1", "1-0") if world.placed(pid) == place)
    world.submit(ask(there, "LAST_SEEN", uuid="b"))
    assert f"1 actions touch {place}" in world.outcome("b")[1]


def test_words_for_destinations_are_no_hosts() -> None:
    """However many go to any host, it is no host that one is kept from."""
    world = many(Limits(max_actions_per_host=2))
    for number in range(3):
        world.submit(ask(str(number), "ANY_HOST", uuid=f"u{number}"))
    excluded = [request.excluded_hosts for request in world.sent(cmd.RequestResource)]
    assert len(excluded) == 3
    assert all(set(hosts) <= set(HOSTS) for hosts in excluded), excluded


def test_controls_never_wait() -> None:
    """A cancel is what makes room."""
    world = many(Limits(max_concurrent_actions=1, max_actions_per_host=1))
    world.submit(ask("0", "host-2", uuid="a"))
    world.submit(ask("1", "LAST_SEEN", uuid="b"))
    assert world.control(AskKind.CANCEL, of="a")[0] == "SUCCEEDED"
    assert world.outcome("b")[0] == "IN_PROGRESS"


def test_a_failover_waits_for_no_limit() -> None:
    """Plans wait, outages don't."""
    world = running(limits=Limits(max_concurrent_actions=1, max_actions_per_host=1))
    world.trouble("host-3", Trouble.SLOW_STOP)
    world.submit(ask("1", "host-2", uuid="a"))
    world.until_stage(Stage.STOPPING, "1")
    world.evict("0")
    world.until_phase("0", Phase.RUNNING)
    assert world.placed("0") == "host-2"


def test_a_standby_on_request_is_an_action_like_any_other() -> None:
    """Its active's host isn't touched, its own destination is."""
    world = many(Limits(max_actions_per_host=1))
    world.submit(own(AskKind.START_STANDBY, "0", "host-2", uuid="a"))
    world.submit(ask("1", "LAST_SEEN", uuid="b"))
    assert "1 actions touch host-2" in world.outcome("b")[1]
