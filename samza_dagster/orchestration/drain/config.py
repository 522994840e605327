"""What `drain_host` is asked: which host, and how."""

from pydantic import Field

from samza_dagster.orchestration.config import HostOrEmpty, Hosts, IfItFailsConfig
from samza_dagster.orchestration.plans.units import SeveralConfig

ACTION = "drain_host"


class DrainHostConfig(IfItFailsConfig, SeveralConfig):
    """Which host is emptied, and how."""

    host: HostOrEmpty = Field(
        default="",
        description="Host to empty of this job's containers. Empty: the partition that is chosen "
        "in the Launchpad; another one than that is refused.",
    )
    destinations: Hosts = Field(
        default=[],
        description="The only hosts to go to; standbys only to those of them that the component "
        "has too, if it names any. Empty: the component's, else any of the job.",
    )
    exclude: Hosts = Field(default=[], description="Hosts that nothing goes to.")
    cold: bool = Field(
        default=False,
        description="Off: an active without a warm standby gets one for the move, which is gone "
        "after it. On: it moves as it is and restores its state at its destination.",
    )
