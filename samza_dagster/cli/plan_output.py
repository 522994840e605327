"""How a plan is shown, by `place --dry-run` and `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from samza_dagster.cli.output import notice, print_json, print_table

if TYPE_CHECKING:
    from samza_dagster.client import Plan


def _goal(plan: Plan) -> str:
    if plan.refusal is not None:
        return "nowhere: the request would be refused"
    return plan.host or "the host that the coordinator reserves"


def print_plan(plan: Plan, as_json: bool) -> None:
    """The plan as JSON, or as tables with its notices on stderr."""
    if as_json:
        print_json(plan.to_json())
        return
    print_table(
        f"{plan.mode.value} {plan.processor_id} → {plan.destination}",
        ("fact", "value"),
        [
            ("now on", plan.source_host),
            ("would go to", _goal(plan)),
            ("deployment", plan.deployment_id),
            ("coordinator", plan.coordinator),
            ("first come", ", ".join(plan.waits_for)),
            ("refused", plan.refusal),
            *((f"step {number}", step) for number, step in enumerate(plan.steps, 1)),
        ],
    )
    print_table(
        "Hosts",
        ("host", "may take it", "ready", "rule", "seen", "smallest fix"),
        [
            (v.host, "yes" if v.legal else "no", "yes" if v.ready else "no", v.rule, v.seen, v.fix)
            for v in plan.hosts
        ],
        spare=("ready", "rule"),
    )
    for text in plan.notices:
        notice(f"Notice: {text}")
