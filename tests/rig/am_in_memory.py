"""A job under the recorded AM without a broker: in memory and in virtual time."""

from __future__ import annotations

import json
import uuid as uuid_module
from typing import Any

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.metadata.memory_store import MemoryMetadataStore
from tests.rig.am_rules import JOB, NAMESPACE, REQUEST, RESPONSE, RecordedAm


class AmInMemory:
    """Actives 0 and 1 with a standby each, on `nm1` and `nm2` of four hosts, and a client of them."""

    def __init__(self, *, affinity: bool = True) -> None:
        self.now = 0.0
        self.store = MemoryMetadataStore(self._now_ms)
        self.am = RecordedAm(affinity=affinity, clock_ms=self._now_ms)
        self.am.deploy(JOB)
        self._seen = 0
        self.client = PlacementClient.over(
            self.store, job_name=JOB, now_ms=self._now_ms, monotonic=lambda: self.now
        )
        self.run(0)

    def run(self, seconds: float) -> None:
        """Lets so much time pass."""
        end = self.now + seconds
        due = self.now
        while due <= end:
            self._show()
            self.now = max(self.now, due)
            for (_, kind, key), value in self.am.due(self.now):
                if value is None:
                    self.store.remove(kind, key)
                else:
                    self.store.put(kind, key, value.encode())
            due = self.am.next_due()
        self.now = end

    def by_others(self, processor: str, host: str, *, again: str = "", **fields: Any) -> str:
        """A request as somebody else writes it, whatever the rules say; None leaves a field out.

        `again` is the UUID of a request that was made before.
        """
        asked = again or str(uuid_module.uuid4())
        request = {
            "processorId": processor,
            "deploymentId": self.am.run_id,
            "subType": REQUEST,
            "uuid": asked,
            "destinationHost": host,
            "statusCode": "CREATED",
            "timestamp": self._now_ms(),
            **fields,
        }
        written = {name: value for name, value in request.items() if value is not None}
        self.store.put(NAMESPACE, f"{asked}.{REQUEST}", json.dumps(written).encode())
        return asked

    def statuses(self, uuid: str) -> list[tuple[str, str]]:
        """Every status of a request so far, with its text."""
        changes, _ = self.store.changes(0)
        told = [json.loads(c.value) for c in changes if c.key == f"{uuid}.{RESPONSE}" and c.value]
        return [(each["statusCode"], each["responseMessage"]) for each in told]

    def placements(self) -> list[str]:
        """Keys of all placement messages that were ever written."""
        changes, _ = self.store.changes(0)
        return [change.key for change in changes if change.namespace == NAMESPACE]

    def _now_ms(self) -> int:
        return 1_795_265_000_000 + round(self.now * 1000)

    def _show(self) -> None:
        changes, self._seen = self.store.changes(self._seen)
        for change in changes:
            value = None if change.value is None else change.value.decode()
            self.am.saw((1, change.namespace, change.key), value)
