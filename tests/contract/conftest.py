"""What the tests of the level share beside the one broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from samza_dagster.sandbox.brokers import Brokers
from tests.rig.fence_broker import three_brokers


@pytest.fixture(scope="session")
def shared_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Three brokers for tests that leave all of them running as they found them."""
    with three_brokers(tmp_path_factory.mktemp("brokers")) as brokers:
        yield brokers
