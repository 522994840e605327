"""What YARN says of its nodes, and which of them can take a container."""

from __future__ import annotations

import pytest

from samza_dagster.cluster.yarn.application import Node, by_host, closed

pytestmark = pytest.mark.unit


def node(host: str, state: str = "RUNNING", *labels: str, why: str = "") -> Node:
    return Node(host, state, 1000, 8, 0, 0, labels, why)


def test_a_host_whose_node_manager_was_started_at_another_port_is_the_one_that_runs() -> None:
    """YARN remembers the one before as LOST."""
    before, now = node("a", "LOST"), node("a")
    assert by_host([before, now]) == by_host([now, before]) == {"a": now}


def test_a_node_that_runs_takes_containers_where_it_has_the_label() -> None:
    assert closed(node("a"), label="") == ""
    assert closed(node("a", "RUNNING", "ssd"), label="ssd") == ""
    assert closed(node("a"), label="ssd") == "its node hasn't the label ssd"


def test_of_any_other_node_it_is_told_what_yarn_says() -> None:
    assert closed(None, label="") == "YARN has no such node"
    assert closed(node("a", "DECOMMISSIONING"), label="") == "YARN says that it is DECOMMISSIONING"
    sick = node("a", "UNHEALTHY", why="1/1 local-dirs are bad")
    assert closed(sick, label="") == "YARN says that it is UNHEALTHY: 1/1 local-dirs are bad"
