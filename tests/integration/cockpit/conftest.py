"""One cockpit for all scenarios: two actives with a standby each, on four hosts.

A bounce places a processor at most twice within six minutes: one scenario bounces all, and two
have a group each.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rig.cockpit import PATIENCE_S, Cockpit, cockpit

SCHEDULE = "minutely"
AT_ONCE = 2


@pytest.fixture(scope="session")
def cockpit_(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cockpit]:
    """Up, all containers running, standbys caught up."""
    settings = {"canaries": 1, "bake_s": 1, "at_once": AT_ONCE}
    schedule = {"name": SCHEDULE, "cron": "* * * * *", "running": False, "settings": settings}
    root = tmp_path_factory.mktemp("cockpit")
    with cockpit(root, {"bounces": [schedule]}, rate=60.0, deadline_s=2 * PATIENCE_S) as made:
        yield made


@pytest.fixture
def ready(cockpit_: Cockpit) -> Cockpit:
    """Whatever the scenario before left, Dagster answers and all containers run."""
    cockpit_.until_ready()
    cockpit_.until_all_run()
    return cockpit_
