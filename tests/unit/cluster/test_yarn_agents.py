"""When a node gets an agent container, and when that is replaced."""

from __future__ import annotations

import pytest

from samza_dagster.cluster.yarn.agents import ADOPTED_WORD_S, FIRST_WORD_S, Due, NodeAgent
from samza_dagster.cluster.yarn.application import YarnContainer

pytestmark = pytest.mark.unit

CONTAINER = YarnContainer("c1", "a", 1, 1, None)


def running(*, since: float = 0.0, patience_s: float = FIRST_WORD_S) -> NodeAgent:
    agent = NodeAgent()
    agent.runs(CONTAINER, since, patience_s)
    return agent


def test_a_node_without_an_agent_gets_one_once() -> None:
    agent = NodeAgent()
    assert agent.next_step(0.0, calls=False) is Due.ASK
    assert agent.next_step(1000.0, calls=False) is Due.NOTHING


def test_a_node_whose_agent_calls_gets_no_other_one_when_yarn_has_lost_sight_of_it() -> None:
    assert NodeAgent().next_step(0.0, calls=True) is Due.NOTHING
    lost = running()
    lost.ended(0.0, "lost node", dead=False)
    assert lost.next_step(100.0, calls=True) is Due.NOTHING


def test_an_agent_that_its_node_manager_saw_die_is_replaced_before_its_silence_is_noticed() -> None:
    dead = running()
    dead.ended(100.0, "exit status 137")
    assert dead.next_step(100.0, calls=True) is Due.ASK
    dead.runs(CONTAINER, 101.0)
    assert dead.next_step(101.0, calls=True) is Due.NOTHING


def test_an_agent_that_isnt_heard_is_replaced_an_adopted_one_sooner() -> None:
    started, adopted = running(), running(patience_s=ADOPTED_WORD_S)
    at = ADOPTED_WORD_S + 0.1
    assert started.next_step(at, calls=False) is Due.NOTHING
    assert adopted.next_step(at, calls=True) is Due.NOTHING
    assert adopted.next_step(at, calls=False) is Due.STOP
    assert started.next_step(FIRST_WORD_S + 0.1, calls=False) is Due.STOP


def test_one_that_is_being_ended_has_its_time_for_that_and_is_replaced_at_once_then() -> None:
    agent = running(patience_s=ADOPTED_WORD_S)
    assert agent.next_step(10.0, calls=False) is Due.STOP
    assert agent.next_step(10.0 + ADOPTED_WORD_S, calls=False) is Due.NOTHING
    agent.ended(14.0, "killed")
    assert agent.next_step(14.0, calls=False) is Due.ASK


def test_an_agent_that_fails_at_once_is_started_ever_more_rarely_and_one_that_lasted_at_once() -> (
    None
):
    agent, pauses = NodeAgent(), list[float]()
    for _ in range(9):
        agent.runs(CONTAINER, 0.0)
        agent.ended(1.0, "no Python")
        pauses.append(agent.again_at - 1.0)
    assert pauses == [min(60.0, 2.0**n) for n in range(9)]
    assert agent.next_step(1.0 + 59.0, calls=False) is Due.NOTHING
    agent.runs(CONTAINER, 0.0)
    agent.ended(1000.0, "killed")
    assert agent.next_step(1000.0, calls=False) is Due.ASK
