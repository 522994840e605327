"""Names of several Samza jobs in one code location: a prefix before each; addresses of their pictures."""

from __future__ import annotations

import os

import dagster as dg

PREFIX_PATTERN = r"^([A-Za-z][A-Za-z0-9_]{0,39})?$"


def named(prefix: str, name: str) -> str:
    """`<prefix>_<name>`; the name alone without a prefix."""
    return f"{prefix}_{name}" if prefix else name


def asset_path(prefix: str, asset: str) -> str:
    """`<prefix>/<asset>`; the asset alone without a prefix."""
    return f"{prefix}/{asset}" if prefix else asset


def asset_key(prefix: str, asset: str) -> dg.AssetKey:
    """The key of an asset below its prefix."""
    return dg.AssetKey(asset_path(prefix, asset).split("/"))


PICTURES = "pictures"


def shown_at(owner: str, picture: str, said: str) -> str:
    """Markdown of an owner's picture; what is `said` is seen while there is none.

    Dagster's web server may be under a path prefix, which its own variable tells.
    """
    prefix = os.environ.get("DAGSTER_WEBSERVER_PATH_PREFIX", "")
    return f"![{said}]({prefix}/logs/{owner}/{PICTURES}/{picture}/svg)"
