"""What `reconcile` is asked: what the placement should be."""

from pydantic import Field

from samza_dagster.orchestration.config import Names, Pins
from samza_dagster.orchestration.plans.units import SeveralConfig

ACTION = "reconcile"


class ReconcileConfig(SeveralConfig):
    """What the placement should be."""

    wanted: Pins = Field(
        default={},
        description="Processor id → host that it should be on: a standby's one of the component's, "
        "if it names any. Others may be anywhere legal.",
    )
    standbys: int | None = Field(
        default=None,
        ge=0,
        le=16,
        description="Standbys of each active. Empty: the most that any active has of the job's own.",
    )
    no_extra: bool = Field(
        default=False,
        description="Also remove standbys that somebody spun up on request, beyond that number; "
        "else only those that a failed or cancelled run left over.",
    )
    only: Names = Field(
        default=[],
        description="Processor ids or host names: only their container groups, and those of "
        "whoever is on the hosts. Empty: all.",
    )
    skip: Names = Field(
        default=[],
        description="Processor ids or host names whose groups are left alone.",
    )
