"""The order of the level, and what its tests share beside the one broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from samza_dagster.sandbox.brokers import Brokers
from tests.rig.fence_broker import three_brokers


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The kill matrix first, all else as it stands: a worker would end with it alone."""
    items.sort(key=lambda item: not item.path.name.startswith("test_killed_in_"))


@pytest.fixture(scope="session")
def shared_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Three brokers for tests that leave all of them running as they found them."""
    with three_brokers(tmp_path_factory.mktemp("brokers")) as brokers:
        yield brokers
