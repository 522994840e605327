"""Which node gets an agent container, and which one is replaced."""

from __future__ import annotations

import pytest

from samza_dagster.cluster.yarn.agents import (
    ADOPTED_WORD_S,
    FIRST_WORD_S,
    AgentContainer,
    AskForAgent,
    StopAgent,
    next_due,
    steps,
)

pytestmark = pytest.mark.unit


def test_a_node_without_an_agent_gets_one_once() -> None:
    assert steps(["a", "b"], {"b": AgentContainer(asked=True)}, [], 0.0) == [AskForAgent("a")]


def test_a_node_whose_agent_calls_gets_no_other_one_when_yarn_has_lost_sight_of_it() -> None:
    assert steps(["a"], {}, ["a"], 0.0) == []
    lost = AgentContainer().ended(0.0, "lost node", dead=False)
    assert steps(["a"], {"a": lost}, ["a"], 100.0) == []


def test_an_agent_that_its_node_manager_saw_die_is_replaced_before_its_silence_is_noticed() -> None:
    dead = AgentContainer().runs("c1", 0.0).ended(100.0, "exit status 137")
    assert steps(["a"], {"a": dead}, ["a"], 100.0) == [AskForAgent("a")]
    assert steps(["a"], {"a": dead.runs("c2", 101.0)}, ["a"], 101.0) == []


def test_an_agent_that_isnt_heard_is_replaced_an_adopted_one_sooner() -> None:
    started = AgentContainer().runs("c1", 0.0)
    adopted = AgentContainer().runs("c1", 0.0, ADOPTED_WORD_S)
    at = ADOPTED_WORD_S + 0.1
    assert steps(["a"], {"a": started}, [], at) == []
    assert steps(["a"], {"a": adopted}, [], at) == [StopAgent("a")]
    assert steps(["a"], {"a": started}, [], FIRST_WORD_S + 0.1) == [StopAgent("a")]
    assert steps(["a"], {"a": adopted}, ["a"], at) == []


def test_one_that_is_being_ended_isnt_ended_twice() -> None:
    stopping = AgentContainer(container="c1", stopping=True)
    assert steps(["a"], {"a": stopping}, [], 1000.0) == []
    assert stopping.ended(1000.0, "").again_at == 1000.0


def test_an_agent_that_fails_at_once_is_started_ever_more_rarely_and_one_that_lasted_at_once() -> (
    None
):
    agent, pauses = AgentContainer(), list[float]()
    for _ in range(9):
        agent = agent.runs("c", 0.0).ended(1.0, "no Python")
        pauses.append(agent.again_at - 1.0)
    assert pauses == [0.0 + min(60.0, 2.0**n) for n in range(9)]
    assert steps(["a"], {"a": agent}, [], 1.0 + 59.0) == []
    assert next_due({"a": agent}, 1.0) == agent.again_at
    lasted = AgentContainer().runs("c", 0.0).ended(1000.0, "killed")
    assert steps(["a"], {"a": lasted}, [], 1000.0) == [AskForAgent("a")]
