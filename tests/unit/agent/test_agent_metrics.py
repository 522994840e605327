"""What an agent tells Prometheus, judged by Prometheus's own OpenMetrics parser."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from samza_dagster.agent import metrics
from samza_dagster.agent.lease import Grant, read_clocks
from samza_dagster.agent.supervisor import Supervisor
from tests.unit.agent.test_agent_link import answering, linked

pytestmark = pytest.mark.unit
REPLY = {"version": 1, "epoch": 7, "losses": 0, "lease_ms": 9000, "commands": []}
RESERVE = {"id": "c1", "kind": "reserve", "request_id": "r1", "memory_mb": 250, "cores": 1}


def samples(page: bytes) -> dict[tuple[str, ...], float]:
    return {
        (
            sample.name.removeprefix("samza_dagster_agent_"),
            *map(str, sample.labels.values()),
        ): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def page_of(supervisor: Supervisor, link: Any, now: float = 0.0) -> dict[tuple[str, ...], float]:
    return samples(
        metrics.render(
            {"host": "host-1"}, metrics.metrics_of(metrics.seen(supervisor, link, lambda: now))
        )
    )


def test_before_a_coordinator_has_answered_it_is_silent_since_the_agent_began(
    tmp_path: Path,
) -> None:
    """An agent that never reaches one is cut off all the same. Counters and states begin at 0, and
    tell since when; a lease that there isn't is left out.
    """
    supervisor, link = linked(tmp_path)
    told = page_of(supervisor, link, link.heard_at + 42)
    assert ("lease_left_seconds", "host-1") not in told
    assert told["coordinator_silence_seconds", "host-1"] == 42
    for counter in (("container_ends_created", "host-1", "no"), ("syncs_created", "host-1")):
        assert abs(told[counter] - time.time()) < 60
    for state in ("launching", "running", "stopping", "dead", "failed", "parked"):
        assert told["containers", "host-1", state] == 0
    assert told["container_ends_total", "host-1", "no"] == told["syncs_total", "host-1"] == 0
    assert told["memory_bytes", "host-1"] == 1000 * 1024 * 1024
    assert any(name == "build_info" for name, *_ in told)


def test_what_a_coordinator_has_told_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its epoch, the lease, when it was heard, and what is held of the host."""
    supervisor, link = linked(tmp_path)

    def answer(_body: dict[str, Any]) -> dict[str, Any]:
        link.close()
        return {**REPLY, "commands": [RESERVE]}

    answering(monkeypatch, answer)
    link.poll()
    told = page_of(supervisor, link, link.heard_at + 42)
    assert told["coordinator_silence_seconds", "host-1"] == 42
    assert told["leader_epoch", "host-1"] == 7
    assert told["syncs_total", "host-1"] == 1
    assert 0 < told["lease_left_seconds", "host-1"] <= 9
    assert told["free_memory_bytes", "host-1"] == 750 * 1024 * 1024
    assert told["free_cores", "host-1"] == 3


@pytest.mark.parametrize("reply", [{"version": 99}, {"epoch": 7}], ids=["unusable", "lower epoch"])
def test_an_answer_that_cant_be_used_is_counted_and_breaks_no_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: dict[str, int]
) -> None:
    """It renews no lease."""
    supervisor, link = linked(tmp_path)
    link.highest_epoch, began = 8, link.heard_at

    def answer(_body: dict[str, Any]) -> dict[str, Any]:
        link.close()
        return {**REPLY, **reply}

    answering(monkeypatch, answer)
    link.poll()
    told = page_of(supervisor, link, began + 42)
    assert told["coordinator_silence_seconds", "host-1"] == 42
    assert (told["failed_syncs_total", "host-1"], told["syncs_total", "host-1"]) == (1, 0)


def test_a_lease_that_has_ended_is_below_0(tmp_path: Path) -> None:
    """So that an alert can tell it from one that nobody knows."""
    supervisor, link = linked(tmp_path)
    now = read_clocks()
    long_ago = now._replace(boottime_s=now.boottime_s - 60, wall_s=now.wall_s - 60)
    supervisor.lease.grant = Grant(1, 10.0, long_ago, supervisor.boot_id)
    assert page_of(supervisor, link)["lease_left_seconds", "host-1"] < 0


@pytest.fixture
def url() -> Iterator[str]:
    with closing(_Closed(metrics.serve(("127.0.0.1", 0), lambda: b"# EOF\n"))) as server:
        yield f"http://127.0.0.1:{server.port}"


class _Closed:
    def __init__(self, server: Any) -> None:
        self._server, self.port = server, server.server_address[1]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_they_are_served_at_one_path_and_nothing_else_is(url: str) -> None:
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        assert answer.read() == b"# EOF\n"
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{url}/c/x/", timeout=10)


@pytest.mark.parametrize("text", ["9464", ":9464", "host", "host:port", "host:70000"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no host:port"):
        metrics.address_of(text)
    assert metrics.address_of("[::1]:9464") == ("::1", 9464)
