"""A job under the recorded AM without a broker: in memory and in virtual time."""

from __future__ import annotations

import json
import uuid as uuid_module
from typing import Any

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.metadata.resource_manager import ResourceManager
from tests.rig.am_rules import JOB, NAMESPACE, REQUEST, RESPONSE, RecordedAm
from tests.rig.memory_store import MemoryMetadataStore


class AmInMemory:
    """Actives 0 and 1 with a standby each, on `nm1` and `nm2` of four hosts, and a client of them."""

    def __init__(self, *, affinity: bool = True, am_behind_s: int = 0) -> None:
        self.now = 0.0
        self.yarn_state = "RUNNING"
        self.store = MemoryMetadataStore(self._now_ms)
        self.am = RecordedAm(
            affinity=affinity, clock_ms=lambda: self._now_ms() - 1_000 * am_behind_s
        )
        self.am.deploy(JOB)
        self._seen = 0
        self.client = PlacementClient.over(
            self.store, job_name=JOB, now_ms=self._now_ms, monotonic=lambda: self.now
        )
        self.run(0)

    def beside_yarn(self) -> PlacementClient:
        """A client that asks a ResourceManager, for which a second passes at each look at its clock.

        That one says what is so in YARN: `am.cluster` and `yarn_state`.
        """

        def passing() -> float:
            self.run(1)
            return self.now

        yarn = ResourceManager(["http://rm:8088"], fetch=self._of_yarn, monotonic=lambda: self.now)
        return PlacementClient.over(
            self.store, job_name=JOB, now_ms=self._now_ms, monotonic=passing, yarn=yarn
        )

    def _of_yarn(self, url: str) -> bytes:
        if "apps" in url:
            fields = {"id": "application_1_0001", "name": f"{JOB}_1", "applicationType": "Samza"}
            ended = self.yarn_state if self.yarn_state in ("FAILED", "KILLED") else "UNDEFINED"
            application = {**fields, "state": self.yarn_state, "finalStatus": ended}
            return json.dumps({"apps": {"app": [application]}}).encode()
        states = {f"nm{n}": "LOST" for n in range(1, 5)} | dict.fromkeys(
            self.am.cluster.hosts, "RUNNING"
        )
        nodes = [{"nodeHostName": host, "state": state} for host, state in states.items()]
        return json.dumps({"nodes": {"node": nodes}}).encode()

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
        written = self.store.written
        told = [json.loads(c.value) for c in written if c.key == f"{uuid}.{RESPONSE}" and c.value]
        return [(each["statusCode"], each["responseMessage"]) for each in told]

    def placements(self) -> list[str]:
        """Keys of all placement messages that were ever written."""
        return [change.key for change in self.store.written if change.namespace == NAMESPACE]

    def _now_ms(self) -> int:
        return 1_795_265_000_000 + round(self.now * 1000)

    def _show(self) -> None:
        changes = self.store.written[self._seen :]
        self._seen += len(changes)
        for change in changes:
            value = None if change.value is None else change.value.decode()
            self.am.saw((1, change.namespace, change.key), value)
