"""A container that fails again and again: it is given time, and the job never ends for it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement.failures import LONGEST_PAUSE_MS
from samza_dagster.placement.state import Limits, Phase
from samza_dagster.simulation.hosts import Trouble
from tests.unit.placement.scenes import HOSTS, Scene, running

pytestmark = pytest.mark.unit

LIMITS = Limits(retry_count=2, retry_window_ms=100_000)


def crash_times(world: Scene, times: int) -> None:
    for _ in range(times):
        world.until_all_run()
        world.crash("0")
        world.until(lambda: world.phases()["0"] is not Phase.RUNNING)


def flapping() -> Scene:
    world = running(limits=LIMITS)
    crash_times(world, 3)
    return world


def test_as_many_failures_as_may_be_cost_no_pause() -> None:
    """`cluster-manager.container.retry.count` of them."""
    world = running(limits=LIMITS)
    began = world.now_ms
    crash_times(world, 2)
    world.until_all_run()
    assert world.now_ms == began


def test_one_more_within_the_window_is_flapping_and_pauses_longest() -> None:
    """Samza would end the job here."""
    world = flapping()
    assert world.phases()["0"] is Phase.WAITING
    failed_at = world.now_ms
    world.until_phase("0", Phase.REQUESTING)
    assert world.now_ms == failed_at + LONGEST_PAUSE_MS


def test_a_flapping_container_still_comes_back_to_its_own_host() -> None:
    """Only time is lost; its standby stays."""
    world = flapping()
    world.until_all_run()
    assert world.placed("0") == "host-1"
    assert world.counted()["failovers-to-standby"] == 0


def test_flapping_is_over_after_the_window() -> None:
    """The next failure is a first one again."""
    world = flapping()
    world.until_all_run()
    world.wait(LIMITS.retry_window_ms)
    world.crash("0")
    crashed_at = world.now_ms
    world.until_phase("0", Phase.REQUESTING)
    assert world.now_ms == crashed_at


def test_flapping_of_one_holds_up_nobody_else() -> None:
    """Another container that fails meanwhile is back at once."""
    world = flapping()
    began = world.now_ms
    world.crash("1")
    world.until(lambda: world.phases()["1"] is not Phase.RUNNING)
    world.until_phase("1", Phase.RUNNING)
    assert world.now_ms == began


def test_however_often_it_fails_the_job_goes_on() -> None:
    """Twenty failures later everything runs."""
    world = running(limits=LIMITS)
    crash_times(world, 20)
    world.until_all_run()
    assert world.processor("0").failures == 20
    assert set(world.phases().values()) == {Phase.RUNNING}


def test_only_failures_within_the_window_are_kept() -> None:
    """The state doesn't grow with a job's age."""
    world = running(limits=LIMITS)
    crash_times(world, 20)
    assert len(world.processor("0").failed_at_ms) <= LIMITS.retry_count + 1


def test_a_planned_restart_is_no_failure() -> None:
    """Samza counts those too, and ended jobs for them."""
    world = running(limits=Limits(retry_count=0))
    world.crash("0-0")
    world.until_all_run()
    assert world.processor("0").failed_at_ms == ()


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


def test_what_fails_on_two_hosts_is_tried_on_a_third() -> None:
    """Every second try is at home; the others go where none has failed since it last ran."""
    world = running(groups={"0": ("0",)})
    world.trouble("host-1", Trouble.NO_START)
    world.trouble("host-2", Trouble.NO_START)
    world.crash("0")
    world.until_all_run()
    tried = [host for _, host in world.started()]
    assert tried == ["host-1", "host-2", "host-1", "host-3"]


def test_a_start_that_fails_everywhere_is_flapping_too() -> None:
    """Pauses stay at their bound; the first host that works ends it."""
    world = running(groups={"0": ("0",)}, limits=LIMITS)
    for host in HOSTS:
        world.trouble(host, Trouble.NO_START)
    world.crash("0")
    world.until(lambda: len(world.started()) == 20, limit=5_000)
    world.calm("host-4")
    world.until_phase("0", Phase.RUNNING)
    assert world.placed("0") == "host-4"
    assert len(world.started()) < 30
