"""The checks: what each is called, which asset it is of, and what it says holds."""

from __future__ import annotations

from collections.abc import Mapping

SAME_HOST = "same_host"
REPLICAS = "replicas_present"
ONE_OWNER = "one_owner"
LAG = "standbys_within_limit"
LOCALITY = "locality_agrees"
CLOCKS = "clocks_agree"
COORDINATED = "coordinated"
COPIES = "live_copies"
STAYS = "none_flaps"
DESCRIPTIONS: Mapping[str, str] = {
    SAME_HOST: "No two processes of one group are on one host.",
    REPLICAS: "Every container that is wanted runs, and every active has its standbys.",
    ONE_OWNER: "Every task has one active owner.",
    LAG: "Every changelog is there, and every standby's lag is known and within lag_limit.",
    LOCALITY: "Containers report the hosts on which the coordinator has them.",
    CLOCKS: "The hosts' clocks are within 5 s of the clock of whoever looks.",
    COORDINATED: "Somebody coordinates the job, and standalone processors agree on who has which task.",
    COPIES: "Of every task's state there is a copy on a host that is alive.",
    STAYS: "No container fails, and no standalone processor comes and goes, again and again.",
}
ASSETS: Mapping[str, str] = {
    **dict.fromkeys(DESCRIPTIONS, "container_locality"),
    ONE_OWNER: "task_locality",
    LAG: "changelog_lag",
    COPIES: "task_locality",
}

INVARIANTS = "invariants"
"""The sensor that judges by what must hold."""
LAG_SLO = "lag_slo"
"""The sensor that judges by objectives."""
OBJECTIVE = "lag_objective"
SLO_ASSETS: Mapping[str, str] = {OBJECTIVE: "changelog_lag"}
