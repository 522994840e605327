"""Pictures that the UI shows in place: kept beside a run's captured logs, told by their address.

Dagster's UI shows Markdown of less than 1,000 characters where it stands on the page of an
asset, and hides any longer one behind "[Show Markdown]". A picture is longer, its address isn't:
Dagster's own web server hands out whatever file its log manager keeps, by `/logs/<key>/<kind>`.
An instance without files of that kind (logs in the cloud, or none) has the picture itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import dagster as dg

from samza_dagster.orchestration.names import PICTURES, shown_at
from samza_dagster.orchestration.show.pictures import picture

IN_PLACE = 1_000
"""Characters of Markdown from which on the UI wants a click."""


Hang = Callable[[str, str], dg.MarkdownMetadataValue]
"""Makes metadata of a picture, as SVG, and its name."""


def embedded(svg: str, name: str) -> dg.MarkdownMetadataValue:
    """The picture itself as metadata: seen on a click, wherever the instance keeps its logs."""
    return dg.MetadataValue.md(picture(svg, name.replace("_", " ")))


class Gallery:
    """The pictures of one owner: a run by its id, or an event by a name of its own."""

    def __init__(self, instance: dg.DagsterInstance, owner: str) -> None:
        self._file_of: Callable[[list[str], str], str] | None = getattr(
            instance.compute_log_manager, "get_captured_local_path", None
        )
        self._owner = owner

    def hang(self, svg: str, name: str) -> dg.MarkdownMetadataValue:
        """The picture as metadata; `name` has letters, digits, `_` and `-` alone."""
        if self._file_of is None:
            return embedded(svg, name)
        file = Path(self._file_of([self._owner, PICTURES, name], "svg"))
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(".draft")
        draft.write_text(svg, encoding="utf-8")
        draft.replace(file)  # a page that is drawn meanwhile has the former one, or this one
        return dg.MetadataValue.md(shown_at(self._owner, name, name.replace("_", " ")))
