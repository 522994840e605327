"""What is said of a YARN's own settings before a job runs there."""

from __future__ import annotations

import pytest

from samza_dagster.cluster.yarn.advice import advice

pytestmark = pytest.mark.unit

GOOD = {
    "yarn.resourcemanager.recovery.enabled": "true",
    "yarn.nodemanager.recovery.enabled": "true",
}


def test_nothing_is_said_of_a_yarn_that_recovers() -> None:
    assert list(advice(GOOD.get, 120.0)) == []


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("yarn.resourcemanager.recovery.enabled", "false", "ends the job with its ResourceManager"),
        ("yarn.nodemanager.recovery.enabled", "", "they run on"),
        ("yarn.am.liveness-monitor.expiry-interval-ms", "200000", "240000"),
        ("yarn.nodemanager.sleep-delay-before-sigkill.ms", "50", "no time"),
        ("yarn.nodemanager.runtime.linux.allowed-runtimes", "docker", "allow default too"),
    ],
)
def test_each_setting_that_costs_is_named_with_the_change(key: str, value: str, word: str) -> None:
    (line,) = advice({**GOOD, key: value}.get, 120.0)
    assert key in line
    assert word in line


def test_yarns_default_expiry_is_shorter_than_twice_a_lease_of_six_minutes() -> None:
    (line,) = advice(GOOD.get, 360.0)
    assert "720000" in line
