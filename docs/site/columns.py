"""The pages of settings, of metrics by the registry, of datasets by their columns, and of decisions by their titles."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from docs.site.page import page, table

DOCS = Path(__file__).parents[1]


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
        return table(head, map(row, described_settings()[of]))

    return page(
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
    """What `GET /metrics` has of a coordinator of a job without containers, of an agent, and of a standalone processor."""
    from samza_dagster.agent.metrics import Seen, metrics_of
    from samza_dagster.agent.reservations import ResourceLedger
    from samza_dagster.coordinator.metrics import JobMetrics
    from samza_dagster.placement.state import JobState
    from samza_dagster.standalone.metrics import Seen as SeenProcessor
    from samza_dagster.standalone.metrics import metrics_of as of_a_processor
    from samza_dagster.standalone.processor import ProcessorState, Settings

    collected = JobMetrics(JobState(job="orders-1"), {}, leader_epoch=1, now_ms=0).collect()
    rows = [
        (
            f"`{each.name}{'_total' if each.type == 'counter' else ''}`",
            each.type,
            each.documentation,
        )
        for each in collected
    ]
    processor = SeenProcessor(ProcessorState("p1", "host-1", Settings(), 0), None, 0)
    of_an_agent, of_one = (
        [(f"`{each.name}`", each.kind, each.text) for each in told]
        for told in (
            metrics_of(Seen(ResourceLedger(0, 0), {}, 0, {})),
            of_a_processor(processor, 0.0),
        )
    )
    return page(
        "Metrics",
        "`GET /metrics` of the leading coordinator, in OpenMetrics text, without a token. Every metric has the label `job`;"
        " counters begin at 0 with each leader, and `…_created` is when. What to alert on: [metrics, alerts and logs](../operations/monitoring.md).",
        table(("metric", "kind", "what it counts"), rows),
        "## Of an agent\n\n`GET /metrics` at its `--metrics-listen`. Every metric has the label `host`; counters begin at 0 with each process, and `…_created` is when.",
        table(("metric", "kind", "what it counts"), of_an_agent),
        "## Of a standalone processor\n\n`GET /metrics` at its `--metrics-listen`. Every metric has the labels `job` and `processor`; the counter begins at 0"
        " with each process, and `…_created` is when. From `leads` to `duplicates` each tells what it reads of its group, and nothing while it isn't"
        " registered, or once ZooKeeper has been silent for a session's time.",
        table(("metric", "kind", "what it counts"), of_one),
    )


def datasets() -> str:
    """The columns of each table that a snapshot writes."""
    from samza_dagster.snapshots.schemas import TABLES

    return page(
        "Datasets",
        "What a snapshot writes: a Delta table for each dataset, one that names the snapshots of which all is there, and one of what "
        "was read so far. Types are Spark SQL's.",
        *(
            f"## {name}\n\n"
            + table(("column", "type", ""), [(f"`{c.name}`", c.type, c.doc) for c in columns])
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
    return page(
        "Decisions",
        "What was decided, why, and what it costs: half a page each.",
        table(("", "decision"), rows),
    )
