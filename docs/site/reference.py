"""Writes the reference pages from the code: `python docs/site/reference.py`.

Commands come from click's own metadata, the component from its pydantic models, Dagster's jobs from
their definitions, metrics from the registry, datasets from their columns. A unit test holds each
page against what this gives.
"""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import dagster as dg
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from samza_dagster.orchestration.bounds import Within

DOCS = Path(__file__).parents[1]
_MADE = "<!-- Made by docs/site/reference.py: run `make docs` after a change of the code. -->"


def _page(title: str, *parts: str) -> str:
    return "\n\n".join((f"# {title}", _MADE, *(part.strip("\n") for part in parts if part))) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(each) for each in line)} |" for line in lines)


def _cell(text: str) -> str:
    """On one line; what isn't code is plain text: a pattern is no emphasis, a placeholder no tag."""
    parts = " ".join(text.split()).replace("|", "\\|").split("`")
    plain = str.maketrans({"<": "&lt;", "*": "\\*"})
    return "`".join(part if i % 2 else part.translate(plain) for i, part in enumerate(parts))


def _prose(text: str) -> str:
    """A docstring without its indentation."""
    return inspect.cleandoc(text)


# Commands


def cli() -> str:
    """Each command of `samza-dagster`, and `place-container`."""
    from samza_dagster.cli.lag import lag
    from samza_dagster.cli.main import cli as root
    from samza_dagster.cli.place_container import place_container

    parts = [
        "Each command's own `--help` says the same. Where a job is meant, `--bootstrap-servers`, `--config`, `--job-name` and"
        " `--job-id` name it, or the environment does.",
        _help_text(root),
        "Exit status: 0 done, 1 failed, 2 bad usage or request, 3 timed out, 4 unreachable,"
        " 130 interrupted.",
    ]
    of_a_job = [row for row in _rows(lag) if row[0] != "`--json`"]
    parts += ["## Options of a job", "Most commands have them.", _table(("option", ""), of_a_job)]
    for path, command in [*_commands(root, "samza-dagster"), ("place-container", place_container)]:
        parts.append(_command(path, command, of_a_job))
    return _page("Commands", *parts)


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _command(path: str, command: click.Command, of_a_job: Sequence[tuple[str, str]]) -> str:
    """Its help, and its options; those of a job stand at the top of the page."""
    context = click.Context(command, info_name=path)
    usage = " ".join(command.collect_usage_pieces(context))
    rows = _rows(command)
    if set(of_a_job) <= set(rows):
        rows = [row for row in rows if row not in of_a_job]
        rows.append(("", "and the [options of a job](#options-of-a-job)"))
    options = _table(("option", ""), rows) if rows else ""
    told = (f"## {path}", _help_text(command), f"```text\n{path} {usage}\n```", options)
    return "\n\n".join(part for part in told if part)


def _rows(command: click.Command) -> list[tuple[str, str]]:
    context = click.Context(command)
    records = [param.get_help_record(context) for param in command.params]
    return [(f"`{names}`", text) for names, text in filter(None, records)]


def _help_text(command: click.Command) -> str:
    """Its paragraphs; what click is told to leave as it is, is an example."""
    parts: list[str] = []
    for paragraph in re.split(r"\n\n+", _prose(command.help or "")):
        if not paragraph.startswith("\b"):
            parts.append(paragraph)
            continue
        head, *lines = paragraph.removeprefix("\b\n").splitlines()
        if head.endswith(":"):
            parts.append(head)
        else:
            lines.insert(0, head)
        parts.append("```\n{}\n```".format("\n".join(line.strip() for line in lines)))
    return "\n\n".join(parts)


# The component


def component() -> str:
    """Its attributes, and those of each block."""
    from samza_dagster.orchestration.assets.snapshot_settings import Snapshots
    from samza_dagster.orchestration.bounce.schedules import ScheduledBounce
    from samza_dagster.orchestration.component import TYPE, SamzaJobComponent
    from samza_dagster.orchestration.plans.bounce_config import BlackoutWindow, RollingBounceConfig
    from samza_dagster.orchestration.policies import PlacementPolicies
    from samza_dagster.orchestration.watch.settings import (
        AutoFailover,
        Invariants,
        LagObjective,
        LagSlo,
    )

    described = _prose(SamzaJobComponent.__doc__ or "").split("\n\n")[0]
    blocks: Sequence[tuple[str, type[BaseModel]]] = (
        ("`policies`", PlacementPolicies),
        ("`auto_failover`", AutoFailover),
        ("`lag_slo`", LagSlo),
        ("`lag_slo.objectives`, each", LagObjective),
        ("`invariants`", Invariants),
        ("`snapshots`", Snapshots),
        ("`bounces`, each", ScheduledBounce),
        ("`bounces[].settings`", RollingBounceConfig),
        ("`bounces[].blackouts`, each", BlackoutWindow),
    )
    return _page(
        "Component",
        f"{described} In YAML it is `type: {TYPE}` with these `attributes`. An attribute that isn't known is"
        " refused when the definitions load. Any value may come from the environment: `\"{{ env('NAME', 'default') }}\"`,"
        " a number by `| int` or `| float` behind it.",
        _table(("attribute", "default", ""), _attributes(SamzaJobComponent)),
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
        shown = "needed" if needed else _default(default)
        yield f"`{each.name}`", shown, str(schema[each.name].get("description", ""))


def _fields(model: type[BaseModel]) -> str:
    rows = [
        (
            f"`{name}`",
            "needed"
            if field.is_required()
            else _default(field.get_default(call_default_factory=True)),
            _bounds(field),
            field.description or "",
        )
        for name, field in model.model_fields.items()
    ]
    return _table(("field", "default", "bounds", ""), rows)


def _default(value: Any) -> str:
    if isinstance(value, BaseModel):
        return "see below"
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value in (None, "", [], (), {}) else str(value)


def _bounds(field: FieldInfo) -> str:
    return ", ".join(str(each) for each in field.metadata if isinstance(each, Within))


# Dagster


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
    return _page(
        "Dagster's jobs, sensors and assets",
        "What one component gives. Each job asks for the fields below in its Launchpad; `dry_run: true` prints the plan and"
        " writes nothing.",
        "## Sensors",
        _table(("sensor", "every", ""), sensors),
        "## Assets",
        _table(
            ("asset", ""),
            [(f"`{spec.key.to_user_string()}`", _words(spec.description or "")) for spec in specs],
        ),
        "## Checks on demand",
        _table(
            ("check", "of", ""),
            [
                (f"`{each.name}`", f"`{each.asset_key.to_user_string()}`", each.description or "")
                for each in checks
            ],
        ),
        *(_job(job) for job in jobs),
        *(f"## Job `{job.name}`\n\n{_prose(job.description or '')}" for job in others),
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
    parts = [f"## Job `{job.name}`", _prose(job.description or "")]
    for node in sorted(job.nodes, key=lambda node: node.name):
        fields = _config_fields(node.definition.config_schema)
        if fields:
            rows = [
                (
                    f"`{name}`",
                    "needed" if field.is_required else _default(_given(field)),
                    field.description or "",
                )
                for name, field in fields.items()
            ]
            parts += [f"Op `{node.name}`:", _table(("field", "default", ""), rows)]
    return "\n\n".join(parts)


def _config_fields(schema: Any) -> Mapping[str, Any]:
    return getattr(getattr(schema, "config_type", None), "fields", None) or {}


def _given(field: Any) -> Any:
    return field.default_value if field.default_provided else None


# JSON

DOCUMENTS: Mapping[str, str] = {
    "place, fail-over, commit, release, cancel, control-standby": "request: Asked, written, responses, response",
    "the same with --dry-run, explain": "Plan",
    "status": "JobView, life: SignsOfLife",
    "status UUID": "request: Asked, response, over",
    "status PROCESSOR": "processor: ProcessorView, actions: ActionView, queued: ActionView, history, failovers: FailoverView,"
    " ghosts: OrphanView, over: ActionView, unread",
    "locality": "task-localities, processor-localities, over: ActionView, unread",
    "lag": "replicas: ReplicaLag",
    "gc": "dry_run, removed",
    "doctor": "ok, checks, unread",
    "config show": "settings, client, zookeeper, config_file, data, artifacts, lacks",
    "verify": "ok, records, complete, first_number, first_at_ms, last_at_ms, head, state_head, kept_since_ms, unread, starts,"
    " predecessors, violation",
    "processor status": "version, agreed, barrier, awaited, duplicates, processors, without_processor, troubles",
    "incidents": "job, summary, cut, incidents",
    "acknowledge": "job, group, reason, written",
    "bounce status": "bounces",
    "bounce status RUN": "bounce, processors",
    "bounce pause, resume, abort": "action, bounce, what_happens_now, told",
    "anything that fails": "error, asked, seen, fix, exit_code",
}
"""Command → the fields of its document; behind a colon the kind of an object, or of each in it."""


def kinds() -> Sequence[type[Any]]:
    """The kinds of objects that a document has."""
    from samza_dagster.client.plan import Plan
    from samza_dagster.client.requests import Asked
    from samza_dagster.client.signs_of_life import SignsOfLife
    from samza_dagster.client.stop_budget import StopBudget
    from samza_dagster.client.verdicts import HostVerdict
    from samza_dagster.client.views import (
        ActionView,
        Agreement,
        FailoverView,
        HostView,
        JobView,
        LeaderView,
        OrphanView,
        ProcessorView,
        ReplicaLag,
    )
    from samza_dagster.metadata.resource_manager import Application

    return (
        *(Asked, Plan, HostVerdict, JobView, ProcessorView, HostView, ActionView, FailoverView),
        *(OrphanView, LeaderView, StopBudget, Application, Agreement, SignsOfLife, ReplicaLag),
    )


def documents() -> str:
    """What `--json` prints: of each command its document, and the fields of each kind of object."""

    def linked(text: str) -> str:
        for kind in kinds():
            text = re.sub(
                rf"\b{kind.__name__}\b", f"[{kind.__name__}](#{kind.__name__.lower()})", text
            )
        return text

    def told(fields: str) -> str:
        named = (each.partition(": ") for each in fields.split(", "))
        return ", ".join(
            f"its fields: {linked(name)}" if name[0].isupper() else f"`{name}`{colon}{linked(kind)}"
            for name, colon, kind in named
        )

    return _page(
        "JSON of the commands",
        "`--json` prints one document on stdout, errors included. What was answered (`response`, `responses`, `history`) has Samza's own field"
        " names, and so has a `request` that stands in Samza's coordinator stream. Times that end in `_ms` are milliseconds since the epoch.",
        _table(
            ("command", "its document"),
            [(f"`{command}`", told(fields)) for command, fields in DOCUMENTS.items()],
        ),
        *(_kind(kind) for kind in kinds()),
    )


def _kind(kind: type[Any]) -> str:
    told = re.sub(r"\bNone\b", "null", _prose(kind.__doc__ or ""))
    rows = [(f"`{name}`", f"`{_in_json(of)}`") for name, of in json_fields(kind).items()]
    return f"## {kind.__name__}\n\n{told}\n\n{_table(('field', 'type'), rows)}"


def json_fields(kind: type[Any]) -> Mapping[str, str]:
    """The fields of an object as its JSON has them, with their types in Python."""
    import dataclasses

    names = {"orphans": "ghosts"}
    return {
        names.get(each.name, each.name): str(each.type)
        for each in dataclasses.fields(kind)
        if each.repr and each.name != "own"
    }


def _in_json(annotation: str) -> str:
    words = {"str": "string", "bool": "boolean", "int": "number", "None": "null"}
    text = re.sub(r"tuple\[(\w+), \.\.\.\]", r"list of \1", annotation)
    text = re.sub(r"Mapping\[str, (\w+)\]", r"object of \1", text)
    text = re.sub(r"\b(TaskMode|CoordinatorKind)\b", "str", text)
    return re.sub(r"\b(str|bool|int|None)\b", lambda word: words[word[0]], text).replace(
        " | ", " or "
    )


# Settings, metrics, datasets, decisions


def described_settings() -> Mapping[str, list[Mapping[str, str]]]:
    """What each setting does, Samza's own and ours."""
    return tomllib.loads((DOCS / "site/job_settings.toml").read_text(encoding="utf-8"))


def settings() -> str:
    """What the coordinator makes of a job's config."""
    from samza_dagster.coordinator.limits import SETTINGS, UNLIMITED

    numbers = {setting.key: setting for setting in SETTINGS}

    def row(described: Mapping[str, str]) -> tuple[str, str, str, str]:
        key, effect = described["key"], described["effect"]
        number = numbers.get(key)
        if number is None:
            return f"`{key}`", f"`{described['default']}`", "", effect
        older = f" ({number.older})" if number.older else ""
        most = "" if number.most == UNLIMITED else f" to {number.most:,}"
        return f"`{key}{older}`", f"`{number.default}`", f"from {number.least:,}{most}", effect

    def rows(of: str) -> str:
        head = ("setting (older name, read too)", "default", "bounds", "effect")
        return _table(head, map(row, described_settings()[of]))

    return _page(
        "Settings of a job",
        "A job is configured by its `job.properties`, the file that Samza reads. This page says what the **coordinator** makes of a"
        " setting. A value out of bounds is refused at the start, by name.",
        "Another value of a setting that containers read is a **new deployment**: new run id, every container is stopped and started anew."
        " A `samza.dagster.…` setting is read by the coordinator alone: it counts from the coordinator's next start, and no container"
        " notices (`samza.dagster.fencing` apart).",
        "More on [groupers](assignment.md), [fencing](../security.md), [leases](../operations/coordinator.md#leases), and what"
        " [standalone processors](../howto/standalone.md) read.",
        f"## Samza's own settings\n\n{rows('samza')}",
        f"## The coordinator's own settings\n\n{rows('ours')}",
        "A **shorter lease** is granted at once, and waited for only when those of the leader before have run out: until then the longer"
        " one counts.",
    )


def metrics() -> str:
    """What `GET /metrics` of a coordinator has, asked of a job without containers, and of an agent."""
    from samza_dagster.agent.metrics import Seen, metrics_of
    from samza_dagster.agent.reservations import ResourceLedger
    from samza_dagster.coordinator.metrics import JobMetrics
    from samza_dagster.placement.state import JobState

    collected = JobMetrics(JobState(job="orders-1"), {}, leader_epoch=1, now_ms=0).collect()
    rows = [
        (
            f"`{each.name}{'_total' if each.type == 'counter' else ''}`",
            each.type,
            each.documentation,
        )
        for each in collected
    ]
    of_an_agent = [
        (f"`{m.name}`", m.kind, m.text) for m in metrics_of(Seen(ResourceLedger(0, 0), {}, 0, {}))
    ]
    return _page(
        "Metrics",
        "`GET /metrics` of the leading coordinator, in OpenMetrics text, without a token. Every metric has the label `job`;"
        " counters begin at 0 with each process. What to alert on: [metrics, alerts and logs](../operations/monitoring.md).",
        _table(("metric", "kind", "what it counts"), rows),
        "## Of an agent\n\n`GET /metrics` at its `--metrics-listen`. Every metric has the label `host`.",
        _table(("metric", "kind", "what it counts"), of_an_agent),
    )


def datasets() -> str:
    """The columns of each table that a snapshot writes."""
    from samza_dagster.snapshots.schemas import TABLES

    return _page(
        "Datasets",
        "What a snapshot writes: a Delta table for each dataset, one that names the snapshots of which all is there, and one of what "
        "was read so far. Types are Spark SQL's.",
        *(
            f"## {name}\n\n"
            + _table(("column", "type", ""), [(f"`{c.name}`", c.type, c.doc) for c in columns])
            for name, columns in TABLES.items()
        ),
    )


def decisions() -> str:
    """The titles of the decision pages, newest last."""
    rows: list[tuple[str, str]] = []
    for file in sorted((DOCS / "decisions").glob("0*.md")):
        title = file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        number, _, name = title.partition(". ")
        rows.append((number, f"[{name}]({file.name})"))
    return _page(
        "Decisions",
        "What was decided, why, and what it costs: half a page each.",
        _table(("", "decision"), rows),
    )


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/cli.md": cli,
    "reference/json.md": documents,
    "reference/component.md": component,
    "reference/dagster.md": dagster,
    "reference/settings.md": settings,
    "reference/metrics.md": metrics,
    "reference/datasets.md": datasets,
    "decisions/index.md": decisions,
}


def main() -> None:
    """Writes each page that differs, and names it."""
    for name, made in PAGES.items():
        file, text = DOCS / name, made()
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{name} is new\n")


if __name__ == "__main__":
    main()
