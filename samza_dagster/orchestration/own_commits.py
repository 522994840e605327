"""From which commit on a container's are those of its new process: kept in a tag of its run.

Its former process is dead once its request has succeeded, so where the checkpoint topic ends then
is a boundary. A re-execution goes by the same one: what was committed while no run looked counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, cast

import dagster as dg

from samza_dagster.orchestration.follow import chain_of

SINCE = "samza/since"
MOST_KEPT = 40
"""Requests and their boundaries that fit into a tag (`MOST_TAG_BYTES`)."""


class OwnCommits:
    """Request → offset of the checkpoint topic when it was first known to have succeeded.

    `tags` reads what runs of the chain have kept, at the first look; `keep` gets the new text.
    """

    def __init__(
        self,
        tags: Callable[[], Iterable[str | None]] = tuple,
        keep: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._tags = tags
        self._keep = keep
        self._since: dict[str, int] | None = None

    @classmethod
    def of_run(
        cls,
        context: dg.OpExecutionContext,
        chain: Callable[[], Iterable[dg.DagsterRun]] | None = None,
    ) -> OwnCommits:
        """Kept in the tags of this run; `chain` are the other runs of its chain."""

        def tags() -> list[str | None]:
            others = chain_of(context) if chain is None else chain()
            return [one.tags.get(SINCE) for one in (*others, context.run)]

        def keep(text: str) -> None:
            context.instance.add_run_tags(context.run.run_id, {SINCE: text})

        return cls(tags, keep)

    def since(self, uuid: str, end: Callable[[], int]) -> int:
        """Where they begin of the container that request `uuid` has started.

        `end` tells where the topic ends now. It is kept before it is gone by.
        """
        if self._since is None:
            self._since = {}
            for text in self._tags():
                for one, offset in _read(text).items():
                    self._since[one] = min(offset, self._since.get(one, offset))
        if uuid not in self._since:
            self._since[uuid] = end()
            newest = list(self._since.items())[-MOST_KEPT:]
            self._keep(json.dumps(dict(newest), separators=(",", ":")))
        return self._since[uuid]


def _read(text: str | None) -> dict[str, int]:
    try:
        data: object = json.loads(text) if text else {}
        known = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
        return {uuid: int(offset) for uuid, offset in known.items()}
    except (ValueError, TypeError):
        return {}
