"""Where the containers are, as the demo shows and records it."""

from __future__ import annotations

from samza_dagster.client.views import JobView


def hosts_of(view: JobView) -> dict[str, str | None]:
    """Processor id → host."""
    return {name: processor.host for name, processor in sorted(view.processors.items())}


def host_map(title: str, view: JobView) -> str:
    """Host × container as text; an active in brackets."""
    lines = [f"{title}:"]
    for host in sorted(view.hosts):
        here = [
            f"[{p.processor_id}]" if p.mode == "Active" else p.processor_id
            for p in sorted(view.processors.values(), key=lambda p: p.processor_id)
            if p.host == host
        ]
        lines.append(f"  {host:<10}{'  '.join(here) or '-'}")
    return "\n".join(lines)
