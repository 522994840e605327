"""Names of several Samza jobs in one code location: a prefix before each; addresses of their pictures."""

from __future__ import annotations

import dagster as dg

PREFIX_PATTERN = r"^([A-Za-z][A-Za-z0-9_]{0,39})?$"


def named(prefix: str, name: str) -> str:
    """`<prefix>_<name>`; the name alone without a prefix."""
    return f"{prefix}_{name}" if prefix else name


def asset_key(prefix: str, asset: str) -> dg.AssetKey:
    """The key of an asset: `<prefix>/<asset>`; the asset alone without a prefix."""
    return dg.AssetKey([prefix, asset] if prefix else [asset])
