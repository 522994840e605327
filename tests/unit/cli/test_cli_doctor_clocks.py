"""What `doctor` says of the hosts' clocks, by the reports that come while it looks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from samza_dagster.cli.main import cli
from samza_dagster.client import host_clocks
from samza_dagster.client.views import JobView, ReplicaLag
from samza_dagster.model import TaskMode

pytestmark = pytest.mark.unit
BEGIN_MS = 1_700_000_000_000


@dataclass
class Reporting:
    """Hosts whose containers report every so many ms, each dated by a clock so far ahead of ours."""

    ahead_ms: Mapping[str, int]
    every_ms: int = 2_000
    now_ms: int = BEGIN_MS

    def lag(self) -> Sequence[ReplicaLag]:
        newest_ms = self.now_ms // self.every_ms * self.every_ms
        return [
            ReplicaLag(
                *(str(n), f"task {n}", TaskMode.ACTIVE, "store", "log", n, host, 9, 8, 0),
                observed_at_ms=newest_ms + ahead_ms,
                basis="metrics",
            )
            for n, (host, ahead_ms) in enumerate(self.ahead_ms.items())
        ]

    def known_view(self) -> JobView:
        return JobView("demo", "1", None, {}, {}, coordinator="samza_dagster")

    def sleep(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)

    def __enter__(self) -> Reporting:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to release."""


Doctor = Callable[[Reporting], tuple[int, dict[str, Any]]]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Doctor:
    """Runs the command where the brokers allow everything; its exit code and what it tells."""
    config = tmp_path / "job.properties"
    config.write_text("job.name=demo\nsystems.kafka.producer.bootstrap.servers=here:1\n")

    def run(hosts: Reporting) -> tuple[int, dict[str, Any]]:
        looks = partial(host_clocks.observed_clocks, now_ms=lambda: hosts.now_ms, sleep=hosts.sleep)
        with monkeypatch.context() as patch:
            patch.setattr("samza_dagster.coordinator.diagnosis.report", lambda _: [])
            patch.setattr("samza_dagster.metadata.connection.Connection.from_properties", _none)
            patch.setattr("samza_dagster.client.PlacementClient", lambda _: hosts)
            patch.setattr(host_clocks, "observed_clocks", looks)
            told = CliRunner().invoke(cli, ["doctor", "--config", str(config), "--json"])
        return told.exit_code, json.loads(told.stdout)

    return run


def _none(*_: object, **__: object) -> None:
    """No broker is asked."""


def test_doctor_names_the_hosts_whose_clocks_are_wrong_and_by_how_much(doctor: Doctor) -> None:
    """Ahead or behind by more than 5 s: exit code 1, with bounds and what to do."""
    code, told = doctor(Reporting({"ahead": 100_000, "behind": -100_000, "right": 0}))
    lines = {line["check"].split()[3]: line for line in told["checks"]}
    assert (code, told["ok"]) == (1, False)
    assert {host: line["ok"] for host, line in lines.items()} == {
        "ahead": False,
        "behind": False,
        "right": True,
    }
    assert "100 s ahead of the observer's (between " in lines["ahead"]["seen"]
    assert "100 s behind the observer's (between " in lines["behind"]["seen"]
    assert "synchronise it" in lines["ahead"]["fix"]


def test_doctor_says_nothing_of_a_clock_while_its_host_reports_nothing_new(doctor: Doctor) -> None:
    """A report that was there before it looked tells no difference, be it hours old."""
    silent = Reporting({"silent": -7_200_000}, every_ms=10**9)
    assert doctor(silent) == (0, {"ok": True, "checks": [], "unread": []})
    assert silent.now_ms - BEGIN_MS >= host_clocks.LOOK_FOR_S * 1000
