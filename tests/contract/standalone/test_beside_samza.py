"""A group that Samza's own processors have made, on a real ZooKeeper."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.metadata.zookeeper import ZooKeeperAddress, connect, make_path
from samza_dagster.sandbox.zookeeper import ZooKeeperServer
from samza_dagster.standalone.group import LocalStores, Member
from samza_dagster.standalone.layout import GroupPaths
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup

pytestmark = pytest.mark.contract

PATHS = GroupPaths.of({"job.name": "orders"})


def test_who_is_registered_and_not_announced_is_samzas_own(tmp_path: Path) -> None:
    """A group is read before any of ours has made its own nodes there; one of ours says which stores it has."""
    stores = LocalStores(unused=("orders-1/counts/Partition_0",))
    with ZooKeeperServer(tmp_path) as server:
        session = connect(ZooKeeperAddress(server.hosts))
        try:
            for path in (PATHS.processors, PATHS.version, PATHS.agreed_version, PATHS.models):
                make_path(session, path)
            session.create(f"{PATHS.processors}/", b"vm j1", ephemeral=True, sequence=True)
            group = ZooKeeperGroup(session, PATHS, lambda: None)
            samzas = Member("0000000000", "j1", "vm", holds_standbys=False)
            assert group.view(None).members == (samzas,)

            group.prepare()
            sequence = group.register("p1", "host-1", stores)
            ours = Member(sequence, "p1", "host-1", holds_standbys=True, stores=stores)
            assert group.view(None).members == (samzas, ours)
            assert session.get(f"{PATHS.processors}/{sequence}")[0] == b"host-1 p1"
        finally:
            session.stop()
            session.close()
