"""A rig per test: real agents, one LocalCluster at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.agent.rig import Rig, rig


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path) as made:
        yield made
