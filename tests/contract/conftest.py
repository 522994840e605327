"""The broker of the contract level, started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from samza_dagster.sandbox.broker import start_broker


@pytest.fixture(scope="session")
def bootstrap_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Kafka broker on a free port of loopback."""
    broker = start_broker(tmp_path_factory.mktemp("broker"))
    yield broker.bootstrap_servers
    broker.close()
