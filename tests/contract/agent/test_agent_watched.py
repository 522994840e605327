"""A real agent as whoever operates it sees it: its metrics at an address, its log as JSON."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from samza_dagster.agent.logs import about
from samza_dagster.sandbox.ports import free_ports
from tests.contract.agent.rig import Rig, launch, start, until

pytestmark = pytest.mark.contract


def scraped(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    return {
        " ".join([s.name, *(v for k, v in s.labels.items() if k != "host")]): s.value
        for family in text_string_to_metric_families(page)
        for s in family.samples
    }


def test_metrics_and_log_tell_a_container_from_its_start_to_its_end(job: Rig) -> None:
    """Its lines name it and the command; it is counted as one that was asked to end."""
    (port,) = free_ports(1)
    cluster, seen = job.cluster()
    given = ("--metrics-listen", f"127.0.0.1:{port}", "--log-format", "json")
    agent = job.agent("host-1", 1000, 4, *given)
    seen.wait("on_host_registered")
    with about(request="u-1", group="0"):
        start(cluster, seen, "host-1", launch("e1"))
    seen.wait("on_container_checked_in", "e1")
    told = scraped(port)
    assert told["samza_dagster_agent_containers running"] == 1
    assert told["samza_dagster_agent_free_cores"] == 3
    assert 0 < told["samza_dagster_agent_lease_left_seconds"] <= 30
    assert told["samza_dagster_agent_coordinator_silence_seconds"] < 30
    with about(request="u-2", group="0"):
        cluster.stop_container("e1", "host-1")
    seen.wait("on_container_stopped", "e1")
    assert scraped(port)["samza_dagster_agent_container_ends_total yes"] == 1

    def lines(what: str) -> list[dict[str, Any]]:
        all_lines = [json.loads(line) for line in agent.log().splitlines()]
        assert all((line["part"], line["host"]) == ("agent", "host-1") for line in all_lines)
        return [line for line in all_lines if f"e1 {what}" in line["message"]]

    (line,) = until("the line of its end", lambda: lines("is dead"))
    assert (line["execution"], line["processor"], line["level"]) == ("e1", "0", "INFO")
    for what, request in (("starts", "u-1"), ("is told to end", "u-2")):
        (line,) = lines(what)
        assert (line["request"], line["group"], line["execution"]) == (request, "0", "e1")
