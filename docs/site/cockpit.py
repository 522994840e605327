"""The pages of the component, by its pydantic models, and of what it gives Dagster, by their definitions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from docs.site.page import default_value, page, prose, table
from samza_dagster.orchestration.bounds import Within


def component() -> str:
    """Its attributes, and those of each block."""
    from samza_dagster.orchestration.assets.snapshot_store import SnapshotStore
    from samza_dagster.orchestration.bounce import ScheduledBounce
    from samza_dagster.orchestration.component import TYPE, SamzaJobComponent
    from samza_dagster.orchestration.plans.bounce import RollingBounceConfig
    from samza_dagster.orchestration.policies import PlacementPolicies
    from samza_dagster.orchestration.watch.settings import (
        AutoFailover,
        Invariants,
        LagObjective,
        LagSlo,
    )

    described = prose(SamzaJobComponent.__doc__ or "").split("\n\n")[0]
    blocks: Sequence[tuple[str, type[BaseModel]]] = (
        ("`policies`", PlacementPolicies),
        ("`auto_failover`", AutoFailover),
        ("`lag_slo`", LagSlo),
        ("`lag_slo.objectives`, each", LagObjective),
        ("`invariants`", Invariants),
        ("`snapshots`", SnapshotStore),
        ("`bounces`, each", ScheduledBounce),
        ("`bounces[].settings`", RollingBounceConfig),
    )
    return page(
        "Component",
        f"{described} In YAML it is `type: {TYPE}` with these `attributes`. An attribute that isn't known is"
        " refused when the definitions load. Any value may come from the environment: `\"{{ env('NAME', 'default') }}\"`,"
        " a number by `| int` or `| float` behind it.",
        table(("attribute", "default", ""), _attributes(SamzaJobComponent)),
        *(f"## {title}\n\n{_fields(model)}" for title, model in blocks),
    )


def _attributes(made: type[Any]) -> Iterator[tuple[str, str, str]]:
    import dataclasses

    schema: Mapping[str, Any] = made.model().model_json_schema()["properties"]
    for each in dataclasses.fields(made):
        default = each.default
        if each.default_factory is not dataclasses.MISSING:
            default = each.default_factory()
        needed = default is dataclasses.MISSING
        shown = "needed" if needed else default_value(default)
        yield f"`{each.name}`", shown, str(schema[each.name].get("description", ""))


def _fields(model: type[BaseModel]) -> str:
    rows = [
        (
            f"`{name}`",
            "needed"
            if field.is_required()
            else default_value(field.get_default(call_default_factory=True)),
            _bounds(field),
            field.description or "",
        )
        for name, field in model.model_fields.items()
    ]
    return table(("field", "default", "bounds", ""), rows)


def _bounds(field: FieldInfo) -> str:
    return ", ".join(str(each) for each in field.metadata if isinstance(each, Within))


def dagster() -> str:
    """Jobs with what their Launchpad asks for, sensors, assets and their checks."""
    from samza_dagster.orchestration.component import SamzaJobComponent

    made = SamzaJobComponent(bootstrap_servers="broker-1:9092", app_name="orders")
    jobs = [each for each in made.build_jobs() if isinstance(each, dg.JobDefinition)]
    others = [each for each in made.build_jobs() if not isinstance(each, dg.JobDefinition)]
    specs = [spec for each in made.build_assets() for spec in _specs(each)]
    checks = [check for each in made.build_assets() for check in getattr(each, "check_specs", ())]
    sensors = [
        (f"`{each.name}`", f"{(each.minimum_interval_seconds or 0) + 1} s", each.description or "")
        for each in made.build_sensors()
    ]
    return page(
        "Dagster's jobs, sensors and assets",
        "What one component gives. Each job asks for the fields below in its Launchpad; `dry_run: true` prints the plan and"
        " writes nothing.",
        "## Sensors",
        table(("sensor", "every", ""), sensors),
        "## Assets",
        table(
            ("asset", ""),
            [(f"`{spec.key.to_user_string()}`", _words(spec.description or "")) for spec in specs],
        ),
        "## Checks on demand",
        table(
            ("check", "of", ""),
            [
                (f"`{each.name}`", f"`{each.asset_key.to_user_string()}`", each.description or "")
                for each in checks
            ],
        ),
        *(_job(job) for job in jobs),
        *(f"## Job `{job.name}`\n\n{prose(job.description or '')}" for job in others),
    )


def _words(described: str) -> str:
    """Without the picture of a description: Dagster's web server alone has it."""
    return re.sub(r"!\[.*?\]\(.*?\)", "", described).strip()


def _specs(made: Any) -> Iterator[dg.AssetSpec]:
    if isinstance(made, dg.AssetSpec):
        yield made
    else:
        yield from made.specs


def _job(job: dg.JobDefinition) -> str:
    parts = [f"## Job `{job.name}`", prose(job.description or "")]
    for node in sorted(job.nodes, key=lambda node: node.name):
        fields = _config_fields(node.definition.config_schema)
        if fields:
            rows = [
                (
                    f"`{name}`",
                    "needed" if field.is_required else default_value(_given(field)),
                    field.description or "",
                )
                for name, field in fields.items()
            ]
            parts += [f"Op `{node.name}`:", table(("field", "default", ""), rows)]
    return "\n\n".join(parts)


def _config_fields(schema: Any) -> Mapping[str, Any]:
    return getattr(getattr(schema, "config_type", None), "fields", None) or {}


def _given(field: Any) -> Any:
    return field.default_value if field.default_provided else None
