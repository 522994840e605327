"""Completions of processors and hosts, read from the job for click."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from samza_dagster.cli.options import Target
from samza_dagster.model.naming import DESTINATION_WORDS

if TYPE_CHECKING:
    from samza_dagster.client import JobView

_WITHIN_S = 2.0
"""A shell that waits longer for a key seems to hang."""


def _offered(context: click.Context, names: Callable[[JobView], Collection[str]]) -> list[str]:
    """Return the job's names; none if they aren't known in time."""
    given = {name: context.params.get(name) for name in Target.model_fields}
    found: list[str] = []

    def ask() -> None:
        try:
            with Target.of(**given).client() as client:
                found.extend(sorted(names(client.known_view())))
        except Exception:
            return

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_WITHIN_S)
    return [] if asking.is_alive() else found


def _beginning_with(text: str, names: Collection[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(text)]


def processors(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The job's processors."""
    return _beginning_with(incomplete, _offered(context, lambda view: view.processors))


def destinations(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The job's hosts, and the words that stand for one."""
    hosts = _offered(context, lambda view: view.hosts)
    return _beginning_with(incomplete, [*hosts, *sorted(DESTINATION_WORDS)])
