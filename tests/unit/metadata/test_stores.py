"""A client over a store that keeps no log: what goes beyond `test_stores_alike.py`."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from samza_dagster.client import PlacementClient
from samza_dagster.metadata import (
    Author,
    Change,
    ContainerPlacementMetadataStore,
    Watch,
)
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.model import StatusCode
from tests.rig.memory_store import MemoryMetadataStore
from tests.rig.placement_response import response

pytestmark = pytest.mark.unit


class KeyedStore(MemoryMetadataStore):
    """A node for each key with its newest value, as ZooKeeper has it: what is gone nobody is told."""

    def changes(self, namespace: str, since: int) -> tuple[tuple[Change, ...], int]:
        changes, end = super().changes(namespace, since)
        newest = {change.key: change for change in changes}.values()
        return tuple(c for c in changes if c in newest and c.value is not None), end

    def watch(
        self,
        namespaces: Collection[str],
        on_change: Callable[[Change], None],
        *,
        since: int | None = None,
    ) -> Watch:
        for namespace in namespaces if since is not None else ():
            for change in self.changes(namespace, since or 0)[0]:
                on_change(change)
        return super().watch(namespaces, on_change)


def test_a_client_asks_and_waits_over_a_store_without_a_log() -> None:
    """It hears how its request ends; what was overwritten before it looked is nowhere."""
    store, author = KeyedStore(), Author("h1", "samza", 1)
    for record in (
        stream.set_config(author, "app.run.id", "run-1"),
        stream.set_config(author, "job.name", "j"),
        stream.set_config(author, "job.host-affinity.enabled", "true"),
        *(stream.set_task_container(author, f"Partition {n}", str(n)) for n in range(2)),
        *(stream.set_container_host(author, str(n), f"h{n}") for n in range(2)),
    ):
        store.put(record.namespace, record.key, record.value or b"")
    coordinator = ContainerPlacementMetadataStore(store)
    with PlacementClient.over(store, job_name="j") as client:
        _, since = client.responses_since(None)
        asked = client.place("0", "h1").uuid
        (request,) = coordinator.requests()
        coordinator.delete_request(asked)
        for status in (StatusCode.IN_PROGRESS, StatusCode.SUCCEEDED):
            coordinator.write_response(response(asked, status, timestamp=request.timestamp))
        assert client.wait(asked, timeout_s=5).status_code is StatusCode.SUCCEEDED
        told, _ = client.responses_since(since)
        assert [response.status_code for _, response in told] == [StatusCode.SUCCEEDED]
