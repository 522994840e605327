"""What the Launchpad offers: lists and maps have bounds, and every field is heeded."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import dagster as dg
import pytest
from pydantic import BaseModel, ValidationError

from samza_dagster import SamzaJobComponent, orchestration
from samza_dagster.errors import InvalidInput
from samza_dagster.orchestration.bounce import ScheduledBounce
from samza_dagster.orchestration.config import ASKED, SaidConfig
from samza_dagster.orchestration.drain import DrainHostConfig
from samza_dagster.orchestration.plans.bounce import RollingBounceConfig
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.watch.settings import AutoFailover, LagObjective, LagSlo

pytestmark = pytest.mark.dagster
LISTS: list[tuple[type[BaseModel], str]] = [
    (DrainHostConfig, "destinations"),
    (DrainHostConfig, "exclude"),
    (RollingBounceConfig, "only"),
    (RollingBounceConfig, "skip"),
]


@pytest.mark.parametrize(("config", "field"), LISTS)
def test_a_list_names_as_many_as_the_largest_job_has_and_no_more(
    config: type[BaseModel], field: str
) -> None:
    """Each entry is a processor id or a host name."""
    most = [f"host-{n}.example.com" for n in range(10_000)]
    assert getattr(config(**{field: most}), field) == most
    wrong = [[*most, "one"], ["h" * 256], ["a/b"], [""], ["a\nb"], ["host-1\n"]]
    if field in ("destinations", "exclude"):
        wrong.append(["a host"])
    for refused in wrong:
        with pytest.raises(ValidationError, match=field):
            config(**{field: refused})


def models() -> list[type[BaseModel]]:
    """Every form, resource and part of the YAML."""
    for module in pkgutil.walk_packages(orchestration.__path__, f"{orchestration.__name__}."):
        importlib.import_module(module.name)
    found: set[type[BaseModel]] = set()
    todo: list[type[BaseModel]] = [dg.Config, dg.Model, dg.ConfigurableResource]
    while todo:
        for model in todo.pop().__subclasses__():
            todo.append(model)
            if model.__module__.startswith(orchestration.__name__):
                found.add(model)
    return sorted(found, key=lambda model: f"{model.__module__}.{model.__qualname__}")


def test_every_field_says_what_it_is() -> None:
    """In the Launchpad, on a resource's page, and in what `dg` shows of the YAML."""
    known = models()
    assert {PlacementPolicies, RollingBounceConfig, ScheduledBounce} <= set(known)
    silent = [
        f"{model.__qualname__}.{name}"
        for model in known
        for name, field in model.model_fields.items()
        if not (field.description or "").strip()
    ]
    assert silent == []


def unbounded(schema: Any, where: str) -> list[str]:
    """Numbers without a largest, in what `dg` shows of a form or the YAML."""
    found = [] if schema.get("type") not in ("integer", "number") else [where]
    choices = schema.get("anyOf", ())
    if {"maximum", "exclusiveMaximum"} & schema.keys() or {"type": "string"} in choices:
        return []  # what may be a text too is a time of day: YAML reads 10:00 as a number
    for choice in choices:
        found += unbounded(choice, where)
    return found


def test_every_number_has_a_largest() -> None:
    """What nobody can mean is refused when it is written, not taken for never."""
    found = [
        name
        for model in models()
        for field, schema in model.model_json_schema().get("properties", {}).items()
        for name in unbounded(schema, f"{model.__qualname__}.{field}")
    ]
    assert found == []


def test_a_hundred_objectives_are_enough() -> None:
    """Each is held against every store of every standby at each look."""
    most: list[dict[str, Any]] = [{"standby": f"{n}-*", "records": n} for n in range(100)]
    assert len(LagSlo.model_validate({"objectives": most}).objectives) == 100
    with pytest.raises(ValidationError, match="objectives"):
        LagSlo.model_validate({"objectives": [*most, *most[:1]]})


@pytest.mark.parametrize(
    ("name", "ident", "named"),
    [("n" * 129, "1", "app_name"), ("n", "1" * 65, "app_id"), ("", "1", "app_name")],
)
def test_a_job_s_name_and_id_have_a_length(name: str, ident: str, named: str) -> None:
    """With both the name of its coordinator stream is one that Kafka takes."""
    made = SamzaJobComponent("here:9092", "n" * 128, "1" * 64)
    assert len(f"__samza_coordinator_{made.app_name}_{made.app_id}") < 249
    with pytest.raises(InvalidInput, match=named):
        SamzaJobComponent("here:9092", name, ident)


@pytest.mark.parametrize(
    ("model", "field"),
    [
        (PlacementPolicies, "lag_limit"),
        (DrainHostConfig, "lag_limit"),
        (AutoFailover, "backlog_records"),
        (LagObjective, "records"),
    ],
)
def test_records_have_one_bound_in_forms_and_yaml(model: type[BaseModel], field: str) -> None:
    """Else a policy could be what no form takes, or a signal be off without anybody knowing."""
    assert model(**{field: 10**9}).model_dump()[field] == 10**9
    with pytest.raises(ValidationError, match=field):
        model(**{field: 10**9 + 1})


def test_every_job_takes_who_asks_why_and_for_which_ticket() -> None:
    """Also one that only reads: its run has the tags of any other."""
    made = SamzaJobComponent(bootstrap_servers="here:9092", app_name="demo")
    forms = {
        job.name: [
            set(getattr(op.config_schema.config_type, "fields", {}))
            for op in job.graph.iterate_op_defs()
        ]
        for job in dg.build_defs_for_component(made).get_repository_def().get_all_jobs()
    }
    assert {"snapshot_assets", "move_container"} <= forms.keys()
    said = set(SaidConfig.model_fields)
    assert [name for name, each in forms.items() if not any(said <= one for one in each)] == []


def test_the_launchpad_asks_for_nothing_but_what_a_person_says() -> None:
    """What has a default is offered beside the form; no resource asks for what the YAML says."""
    made = SamzaJobComponent(bootstrap_servers="here:9092", app_name="demo")
    definitions = dg.build_defs_for_component(made)
    assert all(
        isinstance(each, dg.ResourceDefinition) for each in (definitions.resources or {}).values()
    )
    asked: dict[str, set[str]] = {}
    for job in definitions.get_repository_def().get_all_jobs():
        for op in job.graph.iterate_op_defs():
            fields: dict[str, Any] = getattr(op.config_schema.config_type, "fields", {})
            given = {
                n for n, f in fields.items() if f.default_provided and f.default_value is not None
            }
            if given - ASKED:
                asked[f"{job.name}.{op.name}"] = given - ASKED
    assert asked == {}


def test_a_default_that_is_not_asked_for_is_told_in_words() -> None:
    """And it is what the run gets."""
    fields = RollingBounceConfig.model_fields
    assert (fields["bake_s"].description or "").endswith("Default: 60.")
    assert RollingBounceConfig().bake_s == 60
    first = RollingBounceConfig()
    first.only.append("0")
    assert RollingBounceConfig().only == [], "each run has a list of its own"
