"""Config of `drain_host`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from samza_dagster.orchestration.config import HOST_PATTERN, Names
from samza_dagster.orchestration.plans.several import SeveralConfig


class DrainHostConfig(SeveralConfig):
    """Which host is emptied, and how."""

    host: str = Field(
        default="",
        max_length=255,
        pattern=rf"^$|{HOST_PATTERN}",
        description="Host to empty of this job's containers. Empty: the partition that is chosen "
        "in the Launchpad; another one than that is refused.",
    )
    destinations: Names = Field(
        default_factory=list,
        description="The only hosts to go to; standbys only to those of them that the component "
        "has too, if it names any. Empty: the component's, else any of the job.",
    )
    exclude: Names = Field(default_factory=list, description="Hosts that nothing goes to.")
    cold: bool = Field(
        default=False,
        description="Off: an active without a warm standby gets one for the move, which is gone "
        "after it. On: it moves as it is and restores its state at its destination.",
    )
    if_it_fails: Literal["keep", "remove"] = Field(
        default="keep",
        description="What becomes of a standby that was spun up for a move which then fails: keep "
        "it, so that the run can be re-executed from failure, or remove it.",
    )
