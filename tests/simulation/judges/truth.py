"""What is really so in the virtual world, for those who judge it. The reducer never sees this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from samza_dagster.placement.commands import WriteResponse


@dataclass(frozen=True, slots=True)
class Process:
    """A live process of one incarnation.

    `released`: its JobModel was served, so it owns its tasks, and it hasn't been killed
    by its warden since (the kernel may keep what runs no more). `refused`: the brokers
    refuse its principal, so it owns nothing any more. `frozen`: its host is frozen, or
    has thawed and nothing on it has run since, or has a lease from before a pause that none of
    its clocks counted. `lease_over`: by its own warden's clock,
    now or when it was killed for it.
    """

    execution_id: str
    processor_id: str
    group_id: str
    epoch: int
    host: str
    fault_domain: str
    released: bool
    checked_in: bool
    stopping: bool
    refused: bool
    frozen: bool
    lease_over: bool


class Truth(Protocol):
    """The world as nobody in it can see it."""

    def processes(self) -> Iterable[Process]:
        """Every live process of every host."""
        ...

    def held_resources(self) -> Mapping[str, str]:
        """Request id → host of what is held for a start that hasn't come."""
        ...

    def responses(self) -> Iterable[WriteResponse]:
        """Every response ever committed, in order."""
        ...

    def locality(self) -> Mapping[str, str]:
        """Processor → host as the coordinator stream says it."""
        ...
