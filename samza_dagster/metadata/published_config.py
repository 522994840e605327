"""The job's config as its processors publish it, for observers: a group's JobModel has none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from samza_dagster.errors import MalformedRecord
from samza_dagster.metadata.connection import redacted
from samza_dagster.metadata.interface import MetadataStore

_NAMESPACE = "job-config"
_KEY = "config"


def publish_config(store: MetadataStore, config: Mapping[str, str]) -> None:
    """Write the config without its secrets, unless it is already there. Raise `Unreachable`."""
    document = json.dumps(redacted(config), sort_keys=True).encode()
    if store.get(_NAMESPACE, _KEY) != document:
        store.put(_NAMESPACE, _KEY, document)


def published_config(store: MetadataStore) -> dict[str, str]:
    """Return the config of the processor that started last; empty before the first start.

    Raises `MalformedRecord`, `Unreachable`.
    """
    raw = store.get(_NAMESPACE, _KEY)
    try:
        document: dict[str, Any] = {} if raw is None else json.loads(raw)
        return {key: str(value) for key, value in document.items()}
    except (ValueError, AttributeError) as error:
        raise MalformedRecord(
            "read the published config of a group", seen=repr(error), fix="start a processor anew"
        ) from error
