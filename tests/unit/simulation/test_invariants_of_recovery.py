"""As `test_invariants`: what a restart says again, and that nothing is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import (
    Phase,
    Processor,
    Role,
)
from samza_dagster.simulation.judges import invariants
from tests.unit.simulation.histories import (
    History,
    process,
    requesting,
    running,
    violated,
)

pytestmark = pytest.mark.unit


@pytest.fixture
def history() -> History:
    return History().settled()


# -- recovery-equivalent -----------------------------------------------------------------


def test_a_restart_that_decides_something_is_found(history: History) -> None:
    """It moves a processor on."""
    restarted = step(history.state, ev.CoordinatorRestarted(2_000)).state
    group = restarted.groups["0"]
    changed = replace(group, processors={**group.processors, "0": requesting("0")})
    with violated("recovery-equivalent"):
        history.take_state(
            ev.CoordinatorRestarted(2_000),
            replace(restarted, groups=restarted.groups.set("0", changed)),
        )


def test_a_restart_that_says_something_new_is_found(history: History) -> None:
    """An id that nobody has used before."""
    restarted = step(history.state, ev.CoordinatorRestarted(2_000))
    with violated("recovery-equivalent", "nobody said"):
        history.take_state(
            ev.CoordinatorRestarted(2_000),
            restarted.state,
            *restarted.commands,
            cmd.RequestResource("r-new", "0", None, (), 384, 1, 5_000),
        )


def test_a_restart_that_says_less_than_the_next_one_is_found(history: History) -> None:
    """Twice must be as once, to the last command."""
    history.begin(history.asks("u-1", "host-3"))
    restarted = step(history.state, ev.CoordinatorRestarted(2_000))
    assert restarted.commands
    with violated("recovery-equivalent", "second restart"):
        history.take_state(ev.CoordinatorRestarted(2_000), restarted.state)


# -- nothing-forgotten -------------------------------------------------------------------


def test_a_processor_for_which_nothing_is_under_way_is_found(history: History) -> None:
    """It asks for a resource, and there is no request."""
    with violated("nothing-forgotten", "nothing leads on"):
        history.take(ev.TimePassed(2_000), processors=(replace(requesting("0"), request=None),))


def test_a_turn_that_nobody_has_is_found(history: History) -> None:
    """Everybody waits for somebody else."""
    waiting = Processor("0", Role.ACTIVE, Phase.WAITING)
    with violated("nothing-forgotten", "turn"):
        history.take(ev.TimePassed(2_000), processors=(waiting,))


def test_a_deadline_that_nothing_wakes_up_for_is_found(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job's next deadline is after the group's own."""
    monkeypatch.setattr(invariants, "next_deadline_ms", lambda _state: 9_001)
    with violated("nothing-forgotten", "next deadline"):
        history.take(ev.TimePassed(2_000), processors=(requesting("0", deadline_ms=9_000),))


def test_a_process_that_counts_as_alive_on_a_lost_host_is_found(history: History) -> None:
    """Once the host is lost, the way on begins."""
    hosts = history.state.hosts.set("host-1", replace(history.state.hosts["host-1"], alive=False))
    history.state = replace(history.state, hosts=hosts)
    with violated("nothing-forgotten", "lost"):
        history.take(ev.HostLost(2_000, "host-1", 1_000), processors=(running("0", 1, "host-1"),))


Spoil = Callable[[History], None]


def without_process(history: History) -> None:
    history.truth.live.pop()


def with_a_resource(history: History) -> None:
    history.truth.held["r-9"] = "host-3"


def with_an_orphan(history: History) -> None:
    history.truth.live.append(process("1", 9, "host-3"))


def with_wrong_locality(history: History) -> None:
    history.truth.where["0"] = "host-3"


def with_an_open_request(history: History) -> None:
    history.take(ev.RequestArrived(2_000, history.asks("u-1", "host-3")), cmd.DeleteRequest("u-1"))


def that_does_not_run(history: History) -> None:
    history.dies("0-0", 2, "host-2")


def with_an_action(history: History) -> None:
    history.begin(history.asks("u-1", "host-3"))


@pytest.mark.parametrize(
    "spoil",
    [
        without_process,
        with_a_resource,
        with_an_orphan,
        with_wrong_locality,
        with_an_open_request,
        that_does_not_run,
        with_an_action,
    ],
)
def test_a_job_that_is_quiet_and_not_done_is_found(history: History, spoil: Spoil) -> None:
    """At the end everybody runs, once, and nothing is left over."""
    spoil(history)
    with violated("nothing-forgotten"):
        history.judge.quiesced(history.state, history.truth)


def test_a_processor_that_no_host_can_take_may_wait(history: History) -> None:
    """It is shown as waiting, and asked for again."""
    that_does_not_run(history)
    history.judge.quiesced(history.state, history.truth, {"host-1": 3, "host-2": 0, "host-3": 0})
