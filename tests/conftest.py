"""What all levels share: one broker a session, and Hypothesis without a deadline."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from samza_dagster.sandbox.broker import Broker

RUNNING = "SAMZA_DAGSTER_TEST_BOOTSTRAP"

# What is imported and collected stays: looking through it for garbage took 6 % of Dagster's tests.
gc.disable()

# A shell that starts this in the background has SIGINT ignored, and so would every
# process whose Ctrl-C is tested here.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Times on a shared machine say nothing about a property.
settings.register_profile("samza_dagster", deadline=None)
settings.load_profile("samza_dagster")


def pytest_collection_finish() -> None:
    """From here on garbage is looked for among what tests make."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def bootstrap_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Kafka broker on a free port; SAMZA_DAGSTER_TEST_BOOTSTRAP names one that runs."""
    if running := os.environ.get(RUNNING):
        yield running
        return
    broker = Broker(tmp_path_factory.mktemp("broker")).start()
    yield broker.bootstrap_servers
    broker.close()
