"""The sensor `auto_failover` over a real job, ticked by a thread as Dagster's daemon does."""

from __future__ import annotations

import threading
import time

import dagster as dg

from samza_dagster.metadata.connection import Connection
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.watch.auto_failover import auto_failover_sensor
from samza_dagster.orchestration.watch.settings import AutoFailover
from tests.chaos.am_faults import Told

EVERY_S = 5.0


class Watcher:
    """In its first mode under an AM, which records what it would do. Close it in the end."""

    def __init__(self, name: str, connection: Connection, *, yarn: str = "") -> None:
        self.name = name
        self.errors: list[str] = []
        self.open: set[str] = set()
        """What was told and isn't over yet."""
        self._began = time.monotonic()
        self._told: list[tuple[float, str, str]] = []
        self._samza = SamzaClientResource(
            bootstrap_servers=connection.bootstrap_servers,
            job_name=connection.job_name,
            job_id=connection.job_id,
            yarn_resource_manager=yarn,
        )
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends after the tick that it is at."""
        self._over.set()
        self._thread.join()

    def told(self, since: float) -> list[Told]:
        """What was told since then, by the monotonic clock in seconds."""
        return [
            Told(self.name, signal, subject, at - since)
            for at, signal, subject in list(self._told)
            if at >= since
        ]

    def _watch(self) -> None:
        sensor = auto_failover_sensor(AutoFailover())
        cursor: str | None = None
        with dg.DagsterInstance.ephemeral() as instance:
            while not self._over.is_set():
                due = time.monotonic() + EVERY_S
                try:
                    cursor = self._tick(sensor, instance, cursor)
                except Exception as error:
                    self.errors.append(f"{type(error).__name__}: {error}")
                self._over.wait(max(0.0, due - time.monotonic()))

    def _tick(
        self, sensor: dg.SensorDefinition, instance: dg.DagsterInstance, cursor: str | None
    ) -> str | None:
        with dg.build_sensor_context(
            instance=instance, cursor=cursor, resources={"samza": self._samza}
        ) as context:
            result = sensor(context)
        if not isinstance(result, dg.SensorResult):
            return cursor
        for event in result.asset_events or []:
            assert isinstance(event, dg.AssetObservation)
            instance.report_runless_asset_event(event)
            signal, subject = (str(event.metadata[key].value) for key in ("signal", "subject"))
            is_new = "verdict" in event.metadata
            at = f"{time.monotonic() - self._began:5.0f} s"
            print(
                f"  {at} {self.name}: {signal} {subject}{'' if is_new else ' is over'}", flush=True
            )
            if is_new:
                self.open.add(f"{signal} {subject}")
                self._told.append((time.monotonic(), signal, subject))
            else:
                self.open.discard(f"{signal} {subject}")
        return result.cursor or cursor
