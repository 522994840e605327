"""What passes between a coordinator and a host: commands there, reports back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from samza_dagster.placement import commands as cmd


class Saying(StrEnum):
    """What a host reports."""

    LAUNCHED = "launched"
    CHECKED_IN = "checked-in"
    STOPPED = "stopped"
    START_FAILED = "start-failed"
    STOP_FAILED = "stop-failed"
    RESERVED = "reserved"
    REFUSED = "refused"
    HELD = "held"


Report = tuple[Saying, str]
"""What, and of which incarnation or request."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """The cluster's own command: hold memory and cores for a request."""

    request_id: str
    memory_mb: int
    cores: int


HostCommand = (
    Reserve | cmd.StartContainer | cmd.StopContainer | cmd.ForgetContainer | cmd.ReleaseResource
)
