"""One sandbox of our coordinator on a YARN whose NodeManagers recover, and which waits shortly for masters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from samza_dagster.sandbox.lifecycle import Sandbox
from tests.integration.of_a_sandbox import client, judge, servers
from tests.rig.ours_on_yarn import EXCLUDED, OPTIONS, ours_on_yarn
from tests.rig.pace import PACE

__all__ = ("client", "judge", "servers")


@pytest.fixture(scope="package")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    root = tmp_path_factory.mktemp("sandboxes")
    excluded = root / OPTIONS.name / EXCLUDED
    excluded.parent.mkdir()
    excluded.touch()
    settings = {
        "yarn.resourcemanager.nodes.exclude-path": str(excluded),
        "yarn.nodemanager.recovery.enabled": "true",
        "yarn.am.liveness-monitor.expiry-interval-ms": str(round(10_000 * PACE)),
    }
    with ours_on_yarn(root, settings=settings) as box:
        yield box
