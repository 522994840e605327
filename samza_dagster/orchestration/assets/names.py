"""The datasets of a snapshot, as its assets are named: what each holds, what feeds it, what is drawn of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from samza_dagster.orchestration.names import asset_key

LOCALITY = "container_locality"
TASKS = "task_locality"
CHANGELOG_LAG = "changelog_lag"
READINESS = "standby_readiness"
FORECAST = "restore_forecast"
LOSS = "host_loss"
VIOLATIONS = "violations"
DATASETS: Mapping[str, str] = {
    LOCALITY: "Where each container runs, as the coordinator stream tells it; where the address of"
    " YARN's ResourceManager is given, held against that one and the Application Master: each"
    " difference is named.",
    TASKS: "Where each task runs, by the processor it is assigned to.",
    CHANGELOG_LAG: "How far each replica of a store is behind its changelog: records, bytes, seconds.",
    READINESS: "When each standby is ready, with an interval, and why it isn't.",
    FORECAST: "How long each active would take to process again on each host: warm, or cold.",
    LOSS: "What it would cost if a host died now: its containers, their downtime, and which of"
    " them have no standby.",
    VIOLATIONS: "What breaks a rule: containers that share a host, that have none, or no standby.",
}
FED_BY: Mapping[str, Sequence[str]] = {
    TASKS: (LOCALITY,),
    CHANGELOG_LAG: (TASKS,),
    READINESS: (CHANGELOG_LAG,),
    FORECAST: (LOCALITY, CHANGELOG_LAG),
    LOSS: (FORECAST, READINESS),
    VIOLATIONS: (LOCALITY, TASKS),
}
PICTURES: Mapping[str, str] = {
    LOCALITY: "map",
    CHANGELOG_LAG: "lag_over_time",
    FORECAST: "minutes_to_recover",
    LOSS: "if_a_host_dies",
}
"""What is drawn of a dataset: among the metadata of each snapshot, and of the newest in the description."""
LAG_CHECK = "standby_lag_within_limit"


def owner_of(prefix: str, dataset: str) -> str:
    """Whose the newest picture of a dataset is."""
    return "-".join(("newest", *asset_key(prefix, dataset).path))
