"""The page of what `--json` prints."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from docs.site.page import page, prose, table

DOCUMENTS: Mapping[str, str] = {
    "place, fail-over, commit, release, cancel, control-standby": "request: Request, written, responses, response",
    "the same with --dry-run, explain": "Plan",
    "status": "JobView, life: SignsOfLife",
    "status UUID": "request: Request, response, over",
    "status PROCESSOR": "processor: ProcessorView, actions: ActionView, queued: ActionView, history, failovers: FailoverView,"
    " orphans: OrphanView, over: ActionView, unread",
    "locality": "task-localities, processor-localities, over: ActionView, unread",
    "lag": "replicas: ReplicaLag",
    "gc": "dry_run, removed",
    "doctor": "ok, checks, unread",
    "config show": "settings, client, zookeeper, config_file, data, artifacts, lacks",
    "verify": "ok, records, complete, first_number, first_at_ms, last_at_ms, head, state_head, kept_since_ms, unread, starts,"
    " predecessors, violation",
    "coordinator run --dry-run": "deployment, new, starts, runs, later, hosts, advice",
    "shadow report": "summary, events, unreadable",
    "processor status": "version, agreed, barrier, awaited, duplicates, processors, without_processor, troubles",
    "anything that fails": "error, asked, seen, fix, exit_code",
}
"""Command → the fields of its document; behind a colon the kind of an object, or of each in it."""


def kinds() -> Sequence[type[Any]]:
    """The kinds of objects that a document has."""
    from samza_dagster.client.plan import Plan
    from samza_dagster.client.requests import Request
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
        *(Request, Plan, HostVerdict, JobView, ProcessorView, HostView, ActionView, FailoverView),
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

    return page(
        "JSON of the commands",
        "`--json` prints one document on stdout, errors included. What was answered (`response`, `responses`, `history`) has Samza's own field"
        " names, and so has a `request` that stands in Samza's coordinator stream. Times that end in `_ms` are milliseconds since the epoch.",
        table(
            ("command", "its document"),
            [(f"`{command}`", told(fields)) for command, fields in DOCUMENTS.items()],
        ),
        *(_kind(kind) for kind in kinds()),
    )


def _kind(kind: type[Any]) -> str:
    told = re.sub(r"\bNone\b", "null", prose(kind.__doc__ or ""))
    rows = [(f"`{name}`", f"`{_in_json(of)}`") for name, of in json_fields(kind).items()]
    return f"## {kind.__name__}\n\n{told}\n\n{table(('field', 'type'), rows)}"


def json_fields(kind: type[Any]) -> Mapping[str, str]:
    """The fields of an object as its JSON has them, with their types in Python."""
    import dataclasses

    return {
        each.name: str(each.type)
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
