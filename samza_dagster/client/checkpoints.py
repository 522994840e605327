"""Progress by a job's checkpoints. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from samza_dagster.client.views import View
from samza_dagster.model.checkpoints import Checkpoint


@dataclass(frozen=True)
class TaskProgress(View):
    """Newest checkpoint of one task against what stood before; its time is its host's."""

    task_name: str
    checkpoint_at_ms: int | None
    advanced: bool
    input_offsets: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class ProcessorProgress(View):
    """Does an active processor process: a task's input offset grew in a commit from `since` on.

    `since` is an offset of the checkpoint topic; `end` is where the topic ended.
    """

    processor_id: str
    since: int
    processing: bool
    tasks: tuple[TaskProgress, ...]
    end: int = 0


def task_progress(task_name: str, checkpoints: Iterable[Checkpoint], since: int) -> TaskProgress:
    """Return whether an input offset of the task grew in a commit at offset `since` or behind it.

    Compared with its last commit before `since`, or, when none is left in the topic, with
    its first one after it.
    """
    mine = sorted((c for c in checkpoints if c.task_name == task_name), key=lambda c: c.offset)
    before = [c for c in mine if c.offset < since]
    after = [c for c in mine if c.offset >= since]
    last = mine[-1] if mine else None
    base = before[-1] if before else (after[0] if after else None)
    advanced = base is not None and any(
        offset > base.input_offsets[name]
        for checkpoint in after
        for name, offset in checkpoint.input_offsets.items()
        if name in base.input_offsets
    )
    return TaskProgress(
        task_name=task_name,
        checkpoint_at_ms=last.at_ms if last else None,
        advanced=advanced,
        input_offsets=dict(last.input_offsets) if last else {},
    )
