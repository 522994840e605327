"""What containers are served never has Samza empty a warm store."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.cluster.local import LocalAgents
from samza_dagster.coordinator.deployment import plan
from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.coordinator.leadership import LeaderSettings, Leadership
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.connection import Connection

pytestmark = pytest.mark.unit

CONFIG = {"job.name": "j", "task.inputs": "kafka.in"}
FACTOR = "job.standbytasks.replication.factor"
TRANSACTIONAL = "task.transactional.state.restore.enabled"


def served(**more: str) -> dict[str, str]:
    """The config as containers get it."""
    return plan({**CONFIG, **more}, {"in": 1}, "run-1").config


@pytest.mark.parametrize("set_to", [None, "false", "False", "off"])
def test_a_job_without_standbys_is_served_the_restore_that_keeps_stores(set_to: str | None) -> None:
    """Samza's own default empties them, so it is spelled out, whatever spelling of no was set."""
    config = served(**({} if set_to is None else {TRANSACTIONAL: set_to}))
    assert config[TRANSACTIONAL] == "false"


@pytest.mark.parametrize("set_to", ["true", "True", " true "])
@pytest.mark.parametrize("standbys", [{}, {FACTOR: "1"}, {"job.hotstandby.enabled": "false"}])
def test_the_restore_that_empties_stores_is_refused_where_there_are_no_standbys(
    set_to: str, standbys: dict[str, str]
) -> None:
    """By name, with the smallest change. A restart would restore everything, and an extra standby
    that was spun up would have been warm for nothing.
    """
    with pytest.raises(InvalidInput, match="without standbys") as refused:
        served(**{TRANSACTIONAL: set_to}, **standbys)
    assert TRANSACTIONAL in refused.value.asked
    assert refused.value.seen == repr(set_to)
    assert refused.value.fix == f"leave it out, or {TRANSACTIONAL}=false"


def test_with_standbys_the_factor_that_turns_it_off_is_served() -> None:
    """Also where only our own settings say that there are standbys: Samza knows its own alone."""
    config = served(**{TRANSACTIONAL: "true", "job.hotstandby.replicationcount": "1"})
    assert config[FACTOR] == "2"


def test_a_coordinator_that_is_to_serve_it_is_refused_as_it_starts(tmp_path: Path) -> None:
    """Not when it takes over, weeks later."""
    config = {**CONFIG, TRANSACTIONAL: "true"}
    with pytest.raises(InvalidInput, match="without standbys"):
        Leadership(
            LeaderSettings(
                Connection("a:1", "j"),
                config,
                LaunchTemplate(command=("c",)),
                LocalAgents(tmp_path / "u", "t"),
            )
        )
