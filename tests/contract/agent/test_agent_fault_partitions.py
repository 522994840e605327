"""Words and replies that are lost or late: nothing is done twice, late, or without a lease."""

from __future__ import annotations

import json
import os
import signal
from typing import NamedTuple

import pytest

from samza_dagster.cluster import LocalCluster
from tests.contract.agent.rig import (
    Agent,
    Recorder,
    Rig,
    Scenario,
    Waiting,
    boottime_s,
    launch,
    lease_end_s,
    lives,
    reserve,
    start,
    until,
)
from tests.rig.pace import PACE
from tests.rig.proxy import REPLIES, WORDS, Link, Proxy

pytestmark = pytest.mark.contract

HOST = "host-1"
LEASE_S = 3.0 * PACE


class Cut(NamedTuple):
    """A host whose agent reaches its coordinator through a network that can be held up."""

    cluster: LocalCluster
    seen: Recorder
    agent: Agent
    proxy: Proxy
    pid: int  # of e1, checked in


def cut_off(
    job: Rig, way: str | None = None, *, lease_s: float = LEASE_S, host_timeout_s: float = LEASE_S
) -> Cut:
    """The network holds up what goes that way from now on."""
    behind = job.root / "behind"
    cluster, seen = job.cluster(lease_s=lease_s, host_timeout_s=host_timeout_s, url_file=behind)
    proxy = Proxy.of_urls(job.root / "url", behind)
    agent = job.agent(HOST)
    pid = start(cluster, seen, HOST, launch("e1", "works"))
    seen.wait("on_container_checked_in", "e1")
    if way is not None:
        proxy.hold(way)
    return Cut(cluster, seen, agent, proxy, pid)


def works_again(cut: Cut) -> None:
    """What has been held up arrives, and the host takes and runs what it is given."""
    cut.proxy.heal()
    until("it has a lease again", lambda: lease_end_s(cut.agent) > boottime_s() + LEASE_S / 3)
    start(cut.cluster, cut.seen, HOST, launch("after", processor_id="1"))
    cut.seen.wait("on_container_checked_in", "after")


def lives_on(job: Rig, way: str) -> None:
    cut = cut_off(job, way)
    before = lease_end_s(cut.agent)
    until("half a lease", lambda: boottime_s() > before - LEASE_S / 2)
    assert lease_end_s(cut.agent) <= before + LEASE_S / 4  # a reply that was on its way
    cut.proxy.heal()
    until("it outlives the lease that it had", lambda: boottime_s() > before)
    assert lives(cut.pid)
    assert not cut.seen.named("on_host_lost")
    assert not cut.seen.named("on_container_stopped")


def words_that_are_late_by_less_than_the_lease_harm_nobody(job: Rig) -> None:
    """Half a lease without one: the same process, and no loss."""
    lives_on(job, WORDS)


def replies_that_are_late_by_less_than_the_lease_harm_nobody(job: Rig) -> None:
    lives_on(job, REPLIES)


def a_host_whose_words_are_lost_is_lost_and_what_ran_there_is_dead_by_then(job: Rig) -> None:
    """No lease without a word that arrives; healed, the death is told and the host works again."""
    cut = cut_off(job, WORDS)
    cut.seen.wait("on_host_lost")
    until("it ended with its lease", lambda: not lives(cut.pid), seconds=1)
    assert_no_work_after_its_lease(cut)
    assert not cut.seen.named("on_container_stopped")
    works_again(cut)
    assert cut.seen.named("on_container_stopped", "e1") == [("e1", HOST, 137)]


def a_host_that_gets_no_replies_ends_its_containers_and_says_so(job: Rig) -> None:
    """Its words still arrive, so it isn't lost; a stop that didn't arrive isn't carried out."""
    cut = cut_off(job, REPLIES, host_timeout_s=30.0 * PACE)
    cut.cluster.stop_container("e1", HOST)  # not carried out: it would end with 143
    assert cut.seen.wait("on_container_stopped", "e1") == ("e1", HOST, 137)
    assert_no_work_after_its_lease(cut)
    assert not cut.seen.named("on_host_lost")
    works_again(cut)


def assert_no_work_after_its_lease(cut: Cut) -> None:
    worked = (cut.agent.incarnation("e1") / "work" / "worked").read_text().split()
    assert float(worked[-1]) < lease_end_s(cut.agent) + 0.3 * PACE  # what it takes to be killed


def a_start_from_before_a_loss_is_not_carried_out_after_it(job: Rig) -> None:
    """Late in the network, read when the host is back with a whole lease: it was taken back."""
    cut = cut_off(job, lease_s=30.0 * PACE, host_timeout_s=1.0 * PACE)
    seen = cut.seen
    late = held_commands(cut, cut.cluster, stop=None, start="e2")
    seen.wait("on_host_lost")
    let_the_others_through(cut, late)
    seen.wait("on_container_stopped", "e1")
    until(
        "it is registered again, and admitted, although its long poll still waits",
        lambda: len(seen.named("on_host_told")) == 2,
        seconds=8,
    )
    until("it has a whole lease", lambda: lease_end_s(cut.agent) > boottime_s() + 20)
    late.let_go()
    record = cut.agent.incarnation("e2")
    until("the late reply has been read", lambda: late.ended or record.exists())
    assert not record.exists()
    works_again(cut)


def an_acknowledgement_that_comes_after_a_loss_counts(job: Rig) -> None:
    """The word that told of it isn't booked, as its agent hasn't heard of the loss: told again."""
    cut = cut_off(job, lease_s=20.0 * PACE, host_timeout_s=1.0 * PACE)
    cut.proxy.delay(WORDS, b'"acknowledged": [{')
    cut.cluster.stop_container("e1", HOST)
    cut.seen.wait("on_host_lost")
    works_again(cut)
    assert cut.seen.wait("on_container_stopped", "e1") == ("e1", HOST, 143)
    # What is never acknowledged is sent with every answer, and no answer waits any more.
    until("every command is acknowledged", lambda: not cut.cluster._hosts[HOST].commands)


def commands_of_a_replaced_coordinator_that_arrive_late_are_refused(job: Rig) -> None:
    """Start and stop of the older epoch, read after the newer one was heard of."""
    cut = cut_off(job, lease_s=30.0 * PACE, host_timeout_s=30.0 * PACE)
    kept = start(cut.cluster, cut.seen, HOST, launch("e3", processor_id="3"))
    late = held_commands(cut, cut.cluster, stop="e3", start="e2")
    newer, seen = job.cluster(epoch=2, url_file=job.root / "behind")
    let_the_others_through(cut, late)
    epoch = cut.agent.directory / "epoch.json"
    until("it has heard of the new one", lambda: json.loads(epoch.read_text())["epoch"] == 2)
    late.let_go()
    seen.wait("on_host_told")
    assert seen.wait("on_container_launched", "e3") == ("e3", HOST, kept)
    works_again(cut._replace(cluster=newer, seen=seen))
    refusal = "a coordinator of epoch 1 answers, 2 was seen"
    until("the late reply was refused", lambda: refusal in cut.agent.log())
    assert lives(kept)
    assert not seen.named("on_container_stopped", "e3")
    assert not cut.agent.incarnation("e2").exists()


def held_commands(cut: Cut, cluster: LocalCluster, *, stop: str | None, start: str) -> Link:
    """The connection on which a reply with these commands, in one, is on its way to the agent."""
    reserve(cluster, cut.seen, f"r-{start}", HOST, expires_in_s=30)
    cut.proxy.delay(REPLIES, b'"start"')
    with cluster._changed:
        if stop is not None:
            cluster.stop_container(stop, HOST)
        cluster.start_container(f"r-{start}", HOST, launch(start, processor_id="2"))

    def carrying() -> list[Link]:
        return cut.proxy.live(lambda link: b'"start"' in link.kept[REPLIES])

    return until("the commands are on their way", carrying)[0]


def let_the_others_through(cut: Cut, late: Link) -> None:
    """The agent's other exchange runs on anew; a death gives it something to say."""
    cut.proxy.open()
    for link in cut.proxy.live(lambda link: link is not late):
        link.cut()
    os.kill(cut.pid, signal.SIGKILL)


SCENARIOS = (
    a_host_whose_words_are_lost_is_lost_and_what_ran_there_is_dead_by_then,
    a_host_that_gets_no_replies_ends_its_containers_and_says_so,
    words_that_are_late_by_less_than_the_lease_harm_nobody,
    replies_that_are_late_by_less_than_the_lease_harm_nobody,
    a_start_from_before_a_loss_is_not_carried_out_after_it,
    an_acknowledgement_that_comes_after_a_loss_counts,
    commands_of_a_replaced_coordinator_that_arrive_late_are_refused,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_what_is_lost_or_late_is_done_once_or_not_at_all(
    waiting: Waiting, scenario: Scenario
) -> None:
    """Each on a host of its own, all of them at once."""
    waiting[scenario].result()


@pytest.mark.longcontract
def test_the_lease_ends_on_a_frozen_warden_by_the_agents_hand(job: Rig) -> None:
    """The second killer needs no coordinator, and confirms the death although the first hangs."""
    cut = cut_off(job, WORDS, host_timeout_s=30.0 * PACE)
    warden = cut.agent.warden_pid("e1")
    os.kill(warden, signal.SIGSTOP)
    until("the agent kills it", lambda: not lives(cut.pid))
    assert boottime_s() > lease_end_s(cut.agent) + 1.5  # only when the warden is late
    end = cut.agent.incarnation("e1") / "exit.json"
    until("its end is on record although its warden never thaws", end.exists)
    assert json.loads(end.read_text())["how"] == "warden gone"
    assert not lives(warden)
    works_again(cut)
    assert cut.seen.named("on_container_stopped", "e1") == [("e1", HOST, None)]
