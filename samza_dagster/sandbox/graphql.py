"""Dagster's GraphQL over HTTP: the sandbox's queries to the web server."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from samza_dagster.errors import InvalidInput, Unreachable

_ANSWER_S = 30.0
_OPERATIONS = Path(__file__).with_name("operations.graphql")


def run(url: str, operation: str, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Run an operation of `operations.graphql` by its name, as `ask` does."""
    return ask(url, _OPERATIONS.read_text(encoding="utf-8"), variables, operation=operation)


def ask(
    url: str,
    query: str,
    variables: Mapping[str, Any] | None = None,
    *,
    operation: str | None = None,
) -> dict[str, Any]:
    """Return the `data` of an answer; `operation` selects one of several in `query`.

    Raises `Unreachable` without an answer and `InvalidInput` with Dagster's message, which
    arrives with status 500 for a config that can't be read.
    """
    asked = {"query": query, "variables": dict(variables or {}), "operationName": operation}
    body = json.dumps(asked).encode()
    request = urllib.request.Request(  # noqa: S310 - the sandbox's own http address
        f"{url}/graphql", data=body, headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:  # noqa: S310
            text = answer.read()
    except urllib.error.HTTPError as error:
        text = error.read()
    except OSError as error:
        raise Unreachable(
            f"Dagster at {url}", seen=str(error), fix="start the stack, or look at its log"
        ) from error
    try:
        document = cast("dict[str, Any]", json.loads(text))
    except ValueError as error:
        raise InvalidInput(f"Dagster at {url}", seen=text[:200].decode(errors="replace")) from error
    if document.get("errors"):
        raise InvalidInput(f"Dagster at {url}", seen=str(document["errors"][0].get("message")))
    return cast("dict[str, Any]", document["data"])


def not_reloaded(answer: Mapping[str, Any]) -> str:
    """Return why the web server couldn't reload a code location; empty when it could."""
    loaded = answer.get("locationOrLoadError") or answer
    return "" if loaded["__typename"] == "RepositoryLocation" else f"code location: {loaded}"


def run_id_of(answer: Mapping[str, Any], asked: str) -> str:
    """Return the run id of a launch; raise `InvalidInput` with Dagster's reason."""
    if answer["__typename"] == "LaunchRunSuccess":
        return str(answer["run"]["runId"])
    errors = cast("list[dict[str, Any]]", answer.get("errors") or [])
    reason = "; ".join(str(e["message"]) for e in errors) or str(answer.get("message", ""))
    raise InvalidInput(asked, seen=f"{answer['__typename']}: {reason}")


def not_ready(data: Mapping[str, Any]) -> str:
    """Return what is missing until the stack is ready; empty when it is."""
    workspace = data["workspaceOrError"]
    entries = cast("list[dict[str, Any]]", workspace.get("locationEntries") or [])
    if not entries:
        return "no code location yet"
    for entry in entries:
        found = cast("dict[str, Any]", entry.get("locationOrLoadError") or {})
        if found.get("__typename") == "PythonError":
            return f"location {entry['name']}: {found['message']}"
        if entry["loadStatus"] != "LOADED" or found.get("__typename") != "RepositoryLocation":
            return f"location {entry['name']} is {entry['loadStatus']}"
    statuses = data["instance"]["daemonHealth"]["allDaemonStatuses"]
    for status in cast("list[dict[str, Any]]", statuses):
        if status["required"] and not status["healthy"]:
            return f"daemon {status['daemonType']} has no heartbeat yet"
    return ""


def repository(data: Mapping[str, Any]) -> str:
    """Return the name of the first code location's repository, once the stack is ready."""
    entry = data["workspaceOrError"]["locationEntries"][0]
    return str(entry["locationOrLoadError"]["repositories"][0]["name"])
