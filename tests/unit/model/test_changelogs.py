"""Which stores have a changelog, and where it is, as Samza reads a job's config."""

from __future__ import annotations

import pytest

from samza_dagster.model.changelogs import StoreChangelog, store_changelogs

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("config", "changelog"),
    [
        ({"stores.s.changelog": "kafka.topic.with.dots"}, ("kafka", "topic.with.dots")),
        ({"stores.s.changelog": "log"}, ("", "log")),
        ({"stores.s.changelog": "log", "job.default.system": "k1"}, ("k1", "log")),
        (
            {"stores.s.changelog": "log", "job.changelog.system": "k2", "job.default.system": "k1"},
            ("k2", "log"),
        ),
        (
            {"stores.s.changelog": "kafka.log", "app.mode": "BATCH", "app.run.id": "r7"},
            ("kafka", "log-r7"),
        ),
    ],
)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"stores.s.factory": "F", "stores.s.side.inputs.processor.factory": "P"},
        {"stores.cache.factory": "F", "stores.default.changelog.min.compaction.lag.ms": "1"},
    ],
)
def test_a_changelogs_system_and_topic(
    config: dict[str, str], changelog: tuple[str, str], more: dict[str, str]
) -> None:
    """The first dot separates; a bare name takes the changelog's or the default system."""
    assert store_changelogs({**config, **more}) == (StoreChangelog("s", *changelog),)
