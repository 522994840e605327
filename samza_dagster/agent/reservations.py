"""Memory and cores of one host and their reservations. A value; the agent keeps it on disk."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple


class Reservation(NamedTuple):
    """A reservation for a request, then for the incarnation that starts with it.

    `hold` is the cluster engine's id of the container that has these resources.
    """

    request_id: str
    memory_mb: int
    cores: int
    execution_id: Optional[str] = None
    hold: Optional[str] = None


class ResourceLedger(NamedTuple):
    """The resources of a host and how much of them is held."""

    memory_mb: int
    cores: int
    held: Tuple[Reservation, ...] = ()

    @property
    def free_memory_mb(self) -> int:
        """The free MiB."""
        return self.memory_mb - sum(r.memory_mb for r in self.held)

    @property
    def free_cores(self) -> int:
        """The free cores."""
        return self.cores - sum(r.cores for r in self.held)

    def find(self, request_id: str) -> Optional[Reservation]:
        """Return the reservation of a request, or None."""
        return next((r for r in self.held if r.request_id == request_id), None)

    def refusal(
        self, request_id: str, memory_mb: int, cores: int, hold: Optional[str] = None
    ) -> Optional[str]:
        """Return why it can't be reserved, with what is free; None when it can or already is."""
        for r in self.held:
            if r.request_id == request_id or (hold is not None and r.hold == hold):
                if (r.request_id, r.hold) == (request_id, hold):
                    return None
                return "request {} is reserved on hold {}".format(r.request_id, r.hold)
        if memory_mb <= self.free_memory_mb and cores <= self.free_cores:
            return None
        return (
            "full: {} MiB and {} cores are free of {} MiB and {}, {} MiB and {} are needed".format(
                self.free_memory_mb, self.free_cores, self.memory_mb, self.cores, memory_mb, cores
            )
        )

    def refusal_to_use(self, request_id: str) -> Optional[str]:
        """Return why no incarnation can start on it; None when one can."""
        held = self.find(request_id)
        if held is None:
            return "no resource is held for request {}".format(request_id)
        if held.execution_id is not None:
            return "the resource of request {} is used by {}".format(request_id, held.execution_id)
        return None

    def reserve(
        self, request_id: str, memory_mb: int, cores: int, hold: Optional[str] = None
    ) -> ResourceLedger:
        """Return the ledger with it; a repeated request changes nothing. Call `refusal` first."""
        if self.find(request_id) is not None:
            return self
        made = Reservation(request_id, memory_mb, cores, hold=hold)
        return self._replace(held=(*self.held, made))

    def use(self, request_id: str, execution_id: Optional[str]) -> ResourceLedger:
        """Return the ledger with it tied to an incarnation until its death; None undoes that."""
        return self._replace(
            held=tuple(
                r._replace(execution_id=execution_id) if r.request_id == request_id else r
                for r in self.held
            )
        )

    def release(self, request_id: str) -> ResourceLedger:
        """Return the ledger without it, unless an incarnation uses it."""
        return self._replace(
            held=tuple(
                r for r in self.held if r.request_id != request_id or r.execution_id is not None
            )
        )

    def bury(self, execution_id: str) -> ResourceLedger:
        """Return the ledger without what a dead incarnation used."""
        return self._replace(held=tuple(r for r in self.held if r.execution_id != execution_id))

    def resources(self) -> Dict[str, int]:
        """Return the host's resources and what is free of them, as the sync reports it."""
        return {
            "memory_mb": self.memory_mb,
            "cores": self.cores,
            "free_memory_mb": self.free_memory_mb,
            "free_cores": self.free_cores,
        }

    def to_json(self) -> List[Dict[str, Any]]:
        """Return the reservations in the form of the sync and `reservations.json`."""
        return [
            {
                "request_id": r.request_id,
                "memory_mb": r.memory_mb,
                "cores": r.cores,
                "execution_id": r.execution_id,
                "hold": r.hold,
            }
            for r in self.held
        ]

    def with_held(self, listed: List[Dict[str, Any]]) -> ResourceLedger:
        """Return the ledger with the reservations that `to_json` listed."""
        return self._replace(
            held=tuple(
                Reservation(
                    str(r["request_id"]),
                    int(r["memory_mb"]),
                    int(r["cores"]),
                    r["execution_id"],
                    r.get("hold"),
                )
                for r in listed
            )
        )
