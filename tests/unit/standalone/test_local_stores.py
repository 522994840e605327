"""Stores that a processor finds on its disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from samza_dagster.errors import InvalidInput
from samza_dagster.standalone.group import LocalStores
from samza_dagster.standalone.local_stores import local_stores

pytestmark = pytest.mark.unit

CONFIG = {
    "job.name": "orders",
    "stores.counts.factory": "org.apache.samza.storage.kv.RocksDbKeyValueStorageEngineFactory",
    "stores.counts.changelog": "kafka.orders-counts",
}


def made(state_dir: Path, *tasks: str) -> None:
    for task in tasks:
        (state_dir / "orders-1" / "counts" / task).mkdir(parents=True)


def test_stores_of_tasks_that_run_elsewhere_since_are_unused(tmp_path: Path) -> None:
    """A standby's has its active's name; one that nobody knows is unused too."""
    made(tmp_path, "Partition_0", "Partition_1", "Partition_2", "Partition_9")
    locality = {"Partition 0": "here", "Partition 1": "there", "Standby-Partition 2-0": "here"}
    found = local_stores(tmp_path, CONFIG, locality, "here")
    assert found.unused == ("orders-1/counts/Partition_1", "orders-1/counts/Partition_9")
    assert local_stores(tmp_path / "new", CONFIG, {}, "here") == LocalStores()


def test_checkpoints_of_a_store_in_use_are_in_use_too(tmp_path: Path) -> None:
    """Samza's transactional state keeps them beside the store, by when they were made."""
    of_one = ("Partition_1", "Partition_1-1700000000000-123456")
    made(tmp_path, "Partition_0", "Partition_0-1700000000000-123456", *of_one)
    found = local_stores(tmp_path, CONFIG, {"Partition 0": "here"}, "here")
    assert found.unused == tuple(f"orders-1/counts/{each}" for each in of_one)


def test_what_its_user_may_not_use_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store by its path; a state directory alone is a reason not to start."""
    made(tmp_path, "Partition_0", "Partition_1")
    allowed = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: "Partition_1" not in str(path) and allowed(path, mode)
    )
    locality = {"Partition 0": "here", "Partition 1": "here"}
    found = local_stores(tmp_path, CONFIG, locality, "here")
    assert found == LocalStores(barred=("orders-1/counts/Partition_1",))
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    with pytest.raises(InvalidInput, match="may not read and write"):
        local_stores(tmp_path, CONFIG, {}, "here")
