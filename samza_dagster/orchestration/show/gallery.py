"""Pictures that the UI shows in place: kept beside a run's captured logs, told by their address.

Dagster's UI shows Markdown of less than 1,000 characters where it stands on the page of an
asset, and hides any longer one behind "[Show Markdown]". A picture is longer, its address isn't:
Dagster's own web server hands out whatever file its log manager keeps, by `/logs/<key>/<kind>`.
An instance without files of that kind (logs in the cloud, or none) has the picture itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import dagster as dg

from samza_dagster.orchestration.show.pictures import picture

PICTURES = "pictures"
Hang = Callable[[str, str], dg.MarkdownMetadataValue]
"""Makes metadata of a picture, as SVG, and its name."""


def shown_at(owner: str, picture: str, said: str) -> str:
    """Markdown of an owner's picture; what is `said` is seen while there is none.

    Dagster's web server may be under a path prefix, which its own variable tells.
    """
    prefix = os.environ.get("DAGSTER_WEBSERVER_PATH_PREFIX", "")
    return f"![{said}]({prefix}/logs/{owner}/{PICTURES}/{picture}/svg)"


def embedded(svg: str, name: str) -> dg.MarkdownMetadataValue:
    """The picture itself as metadata: seen on a click, wherever the instance keeps its logs."""
    return dg.MetadataValue.md(picture(svg, name.replace("_", " ")))


def hanging(instance: dg.DagsterInstance, owner: str) -> Hang:
    """Return what hangs the pictures of an owner: a run by its id, or an event by a name of its own.

    A picture's name has letters, digits, `_` and `-` alone.
    """
    file_of: Callable[[list[str], str], str] | None = getattr(
        instance.compute_log_manager, "get_captured_local_path", None
    )
    if file_of is None:
        return embedded

    def hang(svg: str, name: str) -> dg.MarkdownMetadataValue:
        file = Path(file_of([owner, PICTURES, name], "svg"))
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(".draft")
        draft.write_text(svg, encoding="utf-8")
        draft.replace(file)  # a page that is drawn meanwhile has the former one, or this one
        return dg.MetadataValue.md(shown_at(owner, name, name.replace("_", " ")))

    return hang
