"""What `doctor` says of the hosts' clocks, by the reports that stand in the metrics topics."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from samza_dagster.cli.main import cli
from samza_dagster.client.host_clocks import StandingReport, disagreements
from samza_dagster.client.views import JobView, ReplicaLag
from samza_dagster.errors import Unreachable
from samza_dagster.model import TaskMode

pytestmark = pytest.mark.unit
BEGIN_MS = 1_700_000_000_000
INTERVAL_MS = 60_000
"""Samza's default."""


def reported(ahead_ms: Mapping[str, int], *, by_broker: bool = False) -> list[StandingReport]:
    """As each of these hosts has reported, spread over the interval, each by a clock so far ahead."""
    moments = sorted(
        (interval * INTERVAL_MS + number * INTERVAL_MS // len(ahead_ms), host)
        for interval in range(4)
        for number, host in enumerate(ahead_ms)
    )
    return [
        StandingReport(
            "metrics", 0, offset, host, BEGIN_MS + at + ahead_ms[host],
            BEGIN_MS + at + 200 if by_broker else None,
        )
        for offset, (at, host) in enumerate(moments)
    ]  # fmt: skip


def wrong(
    reports: list[StandingReport], now_ms: int = BEGIN_MS + 4 * INTERVAL_MS
) -> dict[str, str]:
    return {host: seen for host, seen in disagreements(reports, now_ms).items() if seen}


def test_hosts_that_agree_are_all_right() -> None:
    assert wrong(reported({"a": 0, "b": 1_000, "c": -1_000})) == {}
    assert wrong(reported({"a": 0, "b": 1_000}, by_broker=True)) == {}
    assert disagreements([], BEGIN_MS) == {}


@pytest.mark.parametrize("ahead_ms", [-100_000, 100_000])
def test_the_order_in_a_topic_tells_which_of_several_hosts_is_wrong(ahead_ms: int) -> None:
    """By Samza's default of a report a minute, without waiting for one."""
    found = wrong(reported({"a": 0, "b": ahead_ms, "c": 0, "d": 0}), BEGIN_MS + 10**6)
    assert list(found) == ["b"]
    side = "behind" if ahead_ms < 0 else "ahead of"
    assert f"s {side} that of " in found["b"]


def test_of_two_hosts_that_disagree_both_are_named() -> None:
    assert sorted(wrong(reported({"a": 0, "b": -100_000}))) == ["a", "b"]


def test_a_topic_that_the_broker_dates_tells_it_of_a_single_host() -> None:
    found = wrong(reported({"a": -30_000}, by_broker=True))
    assert found == {"a": "30 s behind the broker's, by which its reports are dated"}
    assert wrong(reported({"a": -30_000})) == {}, "else nothing does but another look"


def test_a_report_from_the_future_is_wrong_by_itself() -> None:
    (seen,) = wrong(reported({"a": 600_000})).values()
    assert "ahead of this machine's" in seen


def test_one_report_that_came_late_is_no_clock() -> None:
    """What a producer held back while its broker was away stands behind newer ones."""
    reports = reported({"a": 0, "b": 0, "c": 0})
    late = StandingReport("metrics", 0, len(reports), "b", BEGIN_MS)
    assert (
        wrong([*reports, late, StandingReport("metrics", 0, late.offset + 1, "b", BEGIN_MS)]) == {}
    )


@dataclass
class Reporting:
    """A client that knows reports, and what can't be read of them."""

    found: list[StandingReport]
    unread: tuple[Unreachable, ...] = ()
    lags: tuple[ReplicaLag, ...] = ()

    def reports(self) -> tuple[list[StandingReport], list[Unreachable]]:
        return self.found, list(self.unread)

    def lag(self) -> tuple[ReplicaLag, ...]:
        return self.lags

    def known_view(self) -> JobView:
        return JobView("demo", "1", None, {}, {}, coordinator="samza_dagster")

    def __enter__(self) -> Reporting:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to release."""


Doctor = Callable[[Reporting], tuple[int, dict[str, Any]]]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Doctor:
    """Runs the command where the brokers allow everything; its exit code and what it tells."""
    config = tmp_path / "job.properties"
    config.write_text(
        "job.name=demo\njob.default.system=kafka\nsystems.kafka.producer.bootstrap.servers=here:1\n"
    )

    def run(hosts: Reporting) -> tuple[int, dict[str, Any]]:
        with monkeypatch.context() as patch:
            patch.setattr("samza_dagster.cli.doctor.machine_findings", list)
            patch.setattr("samza_dagster.coordinator.diagnosis.access_findings", _none)
            patch.setattr("samza_dagster.coordinator.diagnosis.report", _none)
            patch.setattr("samza_dagster.cli.doctor.PlacementClient", lambda _: hosts)
            told = CliRunner().invoke(cli, ["doctor", "--config", str(config), "--json"])
        document = json.loads(told.stdout)
        said = document["checks"].pop(0)
        assert said["seen"].startswith("demo 1 at here:1")
        return told.exit_code, document

    return run


def _none(*_: object, **__: object) -> list[object]:
    """No broker is asked."""
    return []


def test_doctor_names_the_hosts_whose_clocks_are_wrong_and_by_how_much(doctor: Doctor) -> None:
    """Exit code 1, with what to do."""
    code, told = doctor(Reporting(reported({"behind": -100_000, "right": 0, "too": 0})))
    wrong, others = told["checks"]
    assert (code, told["ok"]) == (1, False)
    assert (wrong["ok"], wrong["check"].split()[3]) == (False, "behind")
    assert "s behind that of " in wrong["seen"]
    assert "synchronise it" in wrong["fix"]
    assert others["ok"]
    assert others["seen"].startswith("2 hosts")


def test_doctor_says_nothing_of_a_host_that_has_reported_nothing(doctor: Doctor) -> None:
    assert doctor(Reporting([])) == (0, {"ok": True, "checks": [], "unread": []})


def test_doctor_judges_what_it_could_read_of_reports(doctor: Doctor) -> None:
    lost = Unreachable("read metrics", seen="metrics-1 has no leader")
    code, told = doctor(Reporting(reported({"a": 0}), (lost,)))
    assert code == 4
    assert [line["ok"] for line in told["checks"]] == [True]
    assert [error["seen"] for error in told["unread"]] == ["metrics-1 has no leader"]


def lag_of(standby: str, store: str, because: str = "", reason: str | None = None) -> ReplicaLag:
    return ReplicaLag(
        *(standby, "t", TaskMode.STANDBY, store, f"log-{store}", 0, "h", 9, 8),
        *(None if because else 0, 1, "metrics", "", reason),
        unknown_because=because,
    )


def test_doctor_names_each_changelog_that_is_gone_and_its_store(doctor: Doctor) -> None:
    """Exit code 1: it is no matter of a broker that doesn't answer."""
    gone = "topic log-a doesn't exist"
    lags = (
        *(lag_of(f"{n}-0", "a", "no-changelog", gone) for n in (0, 1)),
        lag_of("0-0", "b", "beyond-end", "topic log-b was made anew or cut"),
        lag_of("0-0", "c"),
        lag_of("0-0", "d", "no-observation"),
    )
    code, told = doctor(Reporting([], lags=lags))
    assert (code, told["ok"]) == (1, False)
    assert [(each["ok"], each["seen"]) for each in told["checks"]] == [
        (False, f"store a: {gone}"),
        (False, "store b: topic log-b was made anew or cut"),
    ]
    assert "restart nothing that has this store" in told["checks"][0]["fix"]


def test_doctor_says_which_changelogs_are_there_and_which_it_couldnt_read(doctor: Doctor) -> None:
    """A partition without a leader, or a topic that this login may not read: exit code 4."""
    well = (lag_of("0-0", "a"), lag_of("1-0", "a"))
    code, told = doctor(Reporting([], lags=well))
    assert (code, told["checks"][0]["ok"], told["checks"][0]["seen"]) == (0, True, "log-a")
    code, told = doctor(Reporting([], lags=(*well, lag_of("0-0", "b", "no-leader", "no leader"))))
    assert (code, told["checks"][0]["seen"]) == (4, "log-a")
    assert [error["seen"] for error in told["unread"]] == ["no leader"]
