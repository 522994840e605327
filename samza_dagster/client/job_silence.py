"""Whether a whole job fell silent: what Samza's own Application Master shows of a dead job is that alone."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from samza_dagster.client.views import ReplicaLag
from samza_dagster.errors import some_of


@dataclass(frozen=True)
class _Look:
    """The newest look at a deployment that was first seen at `began_s`, and what it found silent."""

    deployment_id: str | None
    began_s: float
    at_s: float
    patience_s: float
    why: str = ""


@dataclass
class JobSilence:
    """What one process has seen of one job, by its monotonic clock. Thread-safe."""

    _newest: _Look | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def looked(
        self,
        deployment_id: str | None,
        lags: Sequence[ReplicaLag],
        *,
        now_s: float,
        patience_s: float,
    ) -> None:
        """Takes a look into account; its lags are unknown of those without news for `patience_s`."""
        told = (lag for lag in lags if lag.observed_at_ms is not None)
        reported = [lag for lag in told if lag.basis != "checkpoint"]
        silent = [lag for lag in reported if lag.basis == "none" and lag.reason]
        whole = bool(reported) and len(silent) == sum(bool(lag.reason) for lag in lags)
        reasons = sorted({lag.reason for lag in silent if lag.reason})
        with self._lock:
            old = self._newest
            goes_on = old is not None and old.deployment_id == deployment_id
            began_s = old.began_s if old is not None and goes_on else now_s
            is_silent = whole and len(silent) == len(reported) and now_s - began_s > patience_s
            why = some_of(reasons) if is_silent else ""
            self._newest = _Look(deployment_id, began_s, now_s, patience_s, why)

    def of(self, deployment_id: str | None, *, now_s: float) -> str | None:
        """For how long each that reported in this deployment is silent, once all are for too long.

        None also where that isn't known: nobody has looked lately, or not all could be read.
        """
        with self._lock:
            newest = self._newest
        if newest is None or newest.deployment_id != deployment_id:
            return None
        return newest.why or None if now_s - newest.at_s <= newest.patience_s else None
