"""What a kill point is called, the same in each run of a scenario."""

from __future__ import annotations

import re

FENCE = "FencePrincipal"
"""What the name of each point around a fence at the brokers begins with."""

_CHANGES = re.compile(r"host-\d+|request-\d+|[0-9a-f]{8}-[0-9a-f-]{27}")


def same_in_each_run(what: str) -> str:
    """Without hosts, numbers of requests, and UUIDs."""
    return _CHANGES.sub("*", what)
