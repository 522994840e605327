"""Which streams a job uses, from its config, by Samza's rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from samza_dagster.model.changelogs import StoreChangelog
from samza_dagster.snapshots.job_config import job_streams

pytestmark = pytest.mark.unit

WIRE = Path(__file__).parents[2] / "data" / "wire" / "coordinator-stream.jsonl"
REPORTER = "org.apache.samza.metrics.reporter.MetricsSnapshotReporterFactory"


def recorded_config() -> dict[str, str]:
    config: dict[str, str] = {}
    for line in WIRE.read_text().splitlines():
        record = json.loads(line)
        _, kind, key = json.loads(record["key"])
        if kind == "set-config" and record["value"] is not None:
            config[key] = json.loads(record["value"])["values"]["value"]
    return config


def test_the_recorded_job() -> None:
    """Store, checkpoint and metrics of the job recorded on a real cluster."""
    streams = job_streams(recorded_config(), "yw", "1")
    assert streams.deployment_id == "1795264662180-8201457e"
    assert streams.changelogs == (StoreChangelog("lab", "kafka", "yw-lab-changelog"),)
    assert streams.checkpoint_topic == "__samza_checkpoint_ver_1_for_yw_1"
    assert streams.metrics_topics == ("metrics",)
    assert streams.report_interval_ms == 5000
    assert streams.ignored == ()


def test_a_bare_changelog_without_any_system_is_named_not_fatal() -> None:
    """The other stores still count."""
    config = {
        "stores.a.factory": "F",
        "stores.a.changelog": "log",
        "stores.b.factory": "F",
        "stores.b.changelog": "kafka.b",
        "stores.cache.factory": "F",
    }
    streams = job_streams(config, "j", "1")
    assert [c.store for c in streams.changelogs] == ["b"]
    assert streams.ignored == ("stores.a.changelog=log: no changelog system is set",)


def test_each_reporter_with_a_stream_has_a_metrics_topic() -> None:
    """Each with its own interval (60 s when not set); the longest counts."""
    config = {
        "metrics.reporters": "jmx, a ,b",
        "metrics.reporter.jmx.class": "org.apache.samza.metrics.reporter.JmxReporterFactory",
        "metrics.reporter.a.class": REPORTER,
        "metrics.reporter.a.stream": "kafka.fast",
        "metrics.reporter.a.interval": "5",
        "metrics.reporter.b.class": REPORTER,
        "metrics.reporter.b.stream": "kafka.slow",
    }
    streams = job_streams(config, "j", "1")
    assert streams.metrics_topics == ("fast", "slow")
    assert streams.report_interval_ms == 60_000


def test_underscores_of_a_job_name_become_dashes_in_the_checkpoint_topic() -> None:
    """As Samza names it."""
    expected = "__samza_checkpoint_ver_1_for_a-b_c-d"
    assert job_streams({}, "a_b", "c_d").checkpoint_topic == expected
