"""Former processors of each task, by the assignments before the newest. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from samza_dagster.model.naming import active_task_of


def former_processors(
    history: Sequence[Mapping[str, str]],
) -> Callable[[str, str], tuple[str, ...]]:
    """Return task and processor → others that had the task, each by its newest older version.

    A processor that is back after an absence has old state: of an active that it had, or of any
    copy of a standby.
    """
    had: dict[tuple[str, bool], list[str]] = {}
    seen: set[tuple[str, bool]] = set()
    for version in history:
        found = {
            (active_task_of(name), any_copy, processor_id)
            for name, processor_id in version.items()
            for any_copy in (True, False)
            if any_copy or name == active_task_of(name)
        }
        for task, any_copy, processor_id in sorted(found):
            if (processor_id, any_copy) not in seen:
                had.setdefault((task, any_copy), []).append(processor_id)
        seen |= {(processor_id, any_copy) for _, any_copy, processor_id in found}

    def former(name: str, processor_id: str) -> tuple[str, ...]:
        active = active_task_of(name)
        return tuple(p for p in had.get((active, name != active), ()) if p != processor_id)

    return former
