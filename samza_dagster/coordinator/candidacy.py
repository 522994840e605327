"""The wait for leadership: a second coordinator of a job doesn't displace the first.

The leader writes a record into the state topic at least every third of the lease. A candidate
measures the leader's silence by its own elapsed clock from the start of its wait, whatever the
records' times. A take-over is safe at any time, since the broker refuses the older leader's
writes; the wait only spares a healthy leader (`docs/operations/coordinator.md`). A coordinator
that takes over writes a mark first, and the other candidates then wait for that coordinator.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from samza_dagster.agent.procfs import ProcessName, boot_id, name_of
from samza_dagster.errors import MalformedRecord, Refused
from samza_dagster.metadata.state_topic import (
    DEPLOYMENT,
    LEADER,
    TAKE_OVER,
    Snapshot,
    StateReader,
    StateRecord,
)

log = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.25
_SHORTEST_PATIENCE_S = 1.0
_TURNS_S = 0.5
_SETTLE_S = 1.0
_CLAIM_BEAT_MS = 2_500


@dataclass(frozen=True)
class Leader:
    """The leader, by the state topic's `leader` record.

    `process` is known when the record was written on Linux. `ended`: it has stopped in
    an orderly way. `lease_ms` is the longest lease that it or one before may have granted,
    `beat_every_ms` how often it shows that it leads.
    """

    epoch: int = 0
    host: str = ""
    url: str = ""
    lease_ms: int = 0
    beat_every_ms: int = 0
    process: ProcessName | None = None
    pid_namespace: str = ""
    ended: bool = True

    @classmethod
    def of(cls, record: Mapping[str, Any] | None) -> Leader:
        """Parse the record; without one, return a leader of epoch 0 that has ended.

        Raises `MalformedRecord` for a record without numbers.
        """
        if record is None:
            return cls()
        try:
            lease_ms = int(record.get("lease_ms", 0))
            epoch = int(record.get("epoch", 0))
            beat_every_ms = int(record.get("beat_every_ms", 0))
        except (TypeError, ValueError, OverflowError) as error:
            raise MalformedRecord(
                "read the coordinator's state",
                seen=f"key {LEADER}: epoch, lease_ms or beat_every_ms: {error}",
                fix="the samza_dagster that wrote it",
            ) from error
        return cls(
            epoch=epoch,
            host=str(record.get("host", "")),
            url=str(record.get("coordinator_url", "")),
            lease_ms=lease_ms,
            beat_every_ms=beat_every_ms,
            process=ProcessName.from_json(record.get("process")),
            pid_namespace=str(record.get("pid_namespace", "")),
            ended=record.get("ended") is True,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the record's value."""
        return {
            "epoch": self.epoch,
            "host": self.host,
            "coordinator_url": self.url,
            "lease_ms": self.lease_ms,
            "beat_every_ms": self.beat_every_ms,
            "process": None if self.process is None else self.process.to_json(),
            "pid_namespace": self.pid_namespace,
            "ended": self.ended,
        }

    def claimed_by(self, claim: Mapping[str, Any]) -> Leader:
        """Return the coordinator that is taking over from this one, by its mark (`claim_of_this_process`).

        It has a few seconds at least to begin, unless its mark says that it has withdrawn. An
        empty claim is of an unknown coordinator.
        """
        return replace(
            self,
            host=str(claim.get("host", "")),
            url="",
            beat_every_ms=max(self.beat_every_ms, _CLAIM_BEAT_MS),
            process=ProcessName.from_json(claim.get("process")),
            pid_namespace=str(claim.get("pid_namespace", "")),
            ended=claim.get("ended") is True,
        )

    @property
    def patience_s(self) -> float:
        """The silence after which the leader counts as gone: two of its beats are missing then.

        A third of the lease is left for the next leader to renew the leases in.
        """
        return max(_SHORTEST_PATIENCE_S, 2 * self.beat_every_ms / 1000)


def this_process() -> tuple[ProcessName | None, str]:
    """Return this process and its pid namespace; unknown outside of Linux."""
    try:
        return name_of(os.getpid()), os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        return None, ""


def claim_of_this_process(*, ended: bool = False) -> dict[str, Any]:
    """Return the mark of this process's take-over; `ended`: it doesn't lead after all."""
    process, namespace = this_process()
    return {
        "ended": ended,
        "host": socket.gethostname(),
        "process": None if process is None else process.to_json(),
        "pid_namespace": namespace,
    }


def is_gone(leader: Leader) -> bool:
    """Return whether it ended, is this very process, or was a process of this machine that is gone."""
    if leader.ended:
        return True
    mine, namespace = this_process()
    if leader.process is None or mine is None:
        return False
    if leader.process == mine:
        return True
    here = (leader.host, leader.pid_namespace, leader.process.boot_id)
    return here == (socket.gethostname(), namespace, boot_id()) and not leader.process.is_alive()


class Candidacy:
    """A wait for a job's leadership. `seconds` is an elapsed clock.

    `fingerprint` is of the config that this coordinator would lead with: a candidate behind a
    leader must be ready to continue what that leader runs. `was_fenced`: another coordinator
    has just taken over from this one, and may not have written anything yet. `led_epoch`: this
    coordinator led in that epoch before; it waits until another leads (`another_leads`), or is
    gone before it did. `settle_s` is how long to hold back after the mark of its own take-over,
    since another candidate's mark may be under way.
    """

    def __init__(
        self,
        reader: StateReader,
        *,
        fingerprint: str,
        seconds: Callable[[], float],
        stopped: threading.Event,
        was_fenced: bool = False,
        led_epoch: int | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._fingerprint = fingerprint
        self._deployment: Mapping[str, Any] = {}
        self._reader = reader
        self._seconds = seconds
        self._stopped = stopped
        self.settle_s = 0.0
        self._was_fenced = was_fenced
        self._led_epoch = led_epoch
        self._jitter = jitter
        self._leader = Leader()
        self._heard_at = 0.0

    @property
    def another_leads(self) -> bool:
        """Return whether another coordinator leads since this one led."""
        return self._led_epoch is not None and self._leader.epoch > self._led_epoch

    def wait(
        self,
        *,
        on_connected: Callable[[], None] = lambda: None,
        on_waiting: Callable[[Leader], None] = lambda _: None,
    ) -> str:
        """Wait for the turn; return why it is time to lead, or "" if stopped or `another_leads`.

        `on_connected` is called when the state topic has been read once, `on_waiting` with the
        leader before the wait. Raises `MalformedRecord` for an unreadable state, and
        `Unreachable`.
        """
        snapshot = self._reader.snapshot()
        on_connected()
        self._leader, claims = _leader_or_claimant(snapshot)
        if self.another_leads:
            return ""
        if is_gone(self._leader):
            if not self._was_fenced:
                return "nobody leads"
            if not claims or self._leader.process == this_process()[0]:
                # The coordinator that fenced this one has written nothing yet.
                self._leader = self._leader.claimed_by({})
        deployment = snapshot.records.get(DEPLOYMENT)
        self._deployment = (deployment.value if deployment is not None else None) or {}
        self._require_the_same_config()
        on_waiting(self._leader)
        log.info(
            "%s leads in epoch %d: this coordinator waits until it is gone, or silent for %.1f s",
            self._leader.url or self._leader.host or "another coordinator",
            self._leader.epoch,
            self._leader.patience_s,
        )
        self._heard_at = self._seconds()
        watch = self._reader.watch(self._note, from_position=snapshot.end)
        try:
            why = self._wait_for_its_end()
            self.settle_s = min(_SETTLE_S, self._leader.patience_s / 8)
            return why
        finally:
            watch.close()

    def _wait_for_its_end(self) -> str:
        # One of several candidates is first, and the others see its mark before their turn.
        turn = self._jitter()
        gone: tuple[Leader, float] | None = None
        while not self._stopped.wait(_LOOK_EVERY_S) and not self.another_leads:
            self._require_the_same_config()
            leader, now = self._leader, self._seconds()
            if not is_gone(leader):
                silent_s = now - self._heard_at
                if silent_s > leader.patience_s + turn * min(1.0, leader.patience_s / 8):
                    return (
                        f"the leader of epoch {leader.epoch} has been silent for {silent_s:.1f} s"
                    )
                continue
            if gone is None or gone[0] != leader:
                gone = (leader, now)
            if now - gone[1] >= turn * _TURNS_S:
                return f"the leader of epoch {leader.epoch} is gone"
        return ""

    def _require_the_same_config(self) -> None:
        seen = self._deployment.get("fingerprint", self._fingerprint)
        if seen != self._fingerprint:
            raise Refused(
                "wait behind a leader with another config than its own",
                seen=f"deployment {self._deployment.get('deployment_id')} has config {seen[:12]}, "
                f"this coordinator has {self._fingerprint[:12]}",
                fix="the same --config; or --take-over now, which makes this one a new deployment",
            )

    def _note(self, record: StateRecord) -> None:
        self._heard_at = self._seconds()
        if record.key == LEADER:
            self._leader = Leader.of(record.value)
        elif record.key == TAKE_OVER:
            self._leader = self._leader.claimed_by(record.value or {})
        elif record.key == DEPLOYMENT:
            self._deployment = record.value or {}


def _leader_or_claimant(snapshot: Snapshot) -> tuple[Leader, bool]:
    """Return the leader and False, or the coordinator that is taking over and True."""
    record, mark = snapshot.records.get(LEADER), snapshot.records.get(TAKE_OVER)
    leader = Leader.of(None if record is None else record.value)
    if mark is None or (record is not None and record.offset > mark.offset):
        return leader, False
    return leader.claimed_by(mark.value or {}), True
