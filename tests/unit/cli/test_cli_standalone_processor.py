"""What a standalone processor reads of its job's config."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.cli.processor import settings_of, state_dir_of
from samza_dagster.errors import InvalidInput
from samza_dagster.standalone.processor import Settings

pytestmark = pytest.mark.unit


def test_its_times_and_how_many_containers_are_the_jobs_and_else_samzas_own() -> None:
    """It stops a third of its session's time before that can be over."""
    assert settings_of({}) == Settings(stop_ms=10_000)
    config = {
        "job.debounce.time.ms": "1000",
        "job.coordinator.zk.session.timeout.ms": "6000",
        "samza.dagster.standalone.active.containers": "1",
    }
    assert settings_of(config) == Settings(
        debounce_ms=1_000, session_ms=6_000, stop_ms=2_000, containers=1
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [("job.debounce.time.ms", "a while"), ("samza.dagster.standalone.active.containers", "0")],
)
def test_what_is_out_of_bounds_is_refused_by_its_key(key: str, value: str) -> None:
    """Before anything is started."""
    with pytest.raises(InvalidInput, match=key):
        settings_of({key: value})


def test_stores_are_where_the_jobs_config_has_them_unless_the_option_says_so() -> None:
    """As Samza reads `job.logged.store.base.dir`; without either they are in the processor's directory."""
    own, config = Path("/var/p1"), {"job.logged.store.base.dir": "/data/stores"}
    assert state_dir_of(config, None, own) == Path("/data/stores")
    assert state_dir_of(config, Path("/other"), own) == Path("/other")
    assert state_dir_of({}, None, own) == Path("/var/p1/state")
