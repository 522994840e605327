"""What the tests of the level share: one broker for all workers, and three brokers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.brokers import Brokers
from tests.conftest import RUNNING
from tests.rig.fence_broker import three_brokers

_KILL_POINTS = "test_killed_at_points.py"
_LONG = (_KILL_POINTS, "test_lost_clients.py", "test_lost_followers.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Workers find a broker that runs: one of each's own would be started and warmed up anew."""
    if RUNNING in os.environ:
        return
    directory = tempfile.TemporaryDirectory(prefix="broker-")
    config.add_cleanup(directory.cleanup)
    broker = Broker(Path(directory.name)).start()
    config.add_cleanup(broker.close)
    os.environ[RUNNING] = broker.bootstrap_servers


class _Shares(LoadScopeScheduling):
    """What a worker takes at a time: a file; of kill points one test, for each takes a minute."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", maxsplit=1)[0]
        return nodeid if Path(file).name == _KILL_POINTS else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _Shares | None:
    """For `--dist loadscope`."""
    return _Shares(config, log) if config.getvalue("dist") == "loadscope" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first, so that no core waits for it at the end."""
    items.sort(key=lambda item: item.path.name not in _LONG)


@pytest.fixture(scope="session")
def shared_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Three brokers for tests that leave all of them running as they found them."""
    with three_brokers(tmp_path_factory.mktemp("brokers")) as brokers:
        yield brokers
