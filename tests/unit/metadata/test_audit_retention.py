"""How far back an audit topic has to go, by its config."""

from __future__ import annotations

import pytest

from samza_dagster.metadata.audit_log import DAY_MS, kept_since_ms
from samza_dagster.metadata.topics import retained

pytestmark = pytest.mark.unit

NOW_MS = 1_795_264_716_232


@pytest.mark.parametrize(
    ("retention_ms", "since_ms"),
    [
        (365 * DAY_MS, NOW_MS - 365 * DAY_MS + 3_600_000),
        (600_000, NOW_MS - 540_000),
        (-1, 0),
        (NOW_MS * 2, 0),
    ],
)
def test_what_is_younger_than_the_retention_has_to_be_there(
    retention_ms: int, since_ms: int
) -> None:
    """But for an hour, or a tenth of a short one, by which clocks may differ; -1 is for ever."""
    assert kept_since_ms(retained(retention_ms), NOW_MS) == since_ms


@pytest.mark.parametrize(
    "config",
    [
        {"retention.bytes": "1048576"},
        {"cleanup.policy": "compact"},
        {"retention.ms": "a year"},
    ],
)
def test_a_topic_that_drops_records_for_another_reason_than_age_promises_nothing(
    config: dict[str, str],
) -> None:
    """Somebody has set it up, or it is of a release that left the size to the brokers."""
    assert kept_since_ms({**retained(600_000), **config}, NOW_MS) is None
    assert kept_since_ms({}, NOW_MS) is None
