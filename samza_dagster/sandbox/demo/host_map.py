"""Where the containers are, as the demo shows and records it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def hosts_of(facts: Mapping[str, Any]) -> dict[str, str | None]:
    """Processor id → host, by a sandbox's status."""
    return {name: each.get("host") for name, each in sorted(facts["processors"].items())}


def host_map(title: str, facts: Mapping[str, Any]) -> str:
    """Host × container as text, by a sandbox's status; an active in brackets."""
    lines = [f"{title}:"]
    for host in sorted(facts["hosts"]):
        here = [
            f"[{name}]" if each.get("mode") == "Active" else name
            for name, each in sorted(facts["processors"].items())
            if each.get("host") == host
        ]
        lines.append(f"  {host:<10}{'  '.join(here) or '-'}")
    return "\n".join(lines)
