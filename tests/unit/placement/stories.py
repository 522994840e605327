"""Scenes told in a line each: what is asked and what goes wrong, and what has become of it.

`python -m tests.unit.placement.stories` writes `tests/data/responses.json` anew: every answer, and
every start with its reason, of each story that `stories.txt` tells.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from samza_dagster.placement import commands as cmd
from tests.unit.placement.scenes import Scene, job
from tests.unit.placement.words import ended, take

TOLD = Path(__file__).with_name("stories.txt")
RECORD = Path(__file__).parents[2] / "data" / "responses.json"
JOBS = {
    "an active and its standby": "two pairs",
    "actives alone": "two actives",
    "two standbys": "an active and two standbys; 5 hosts",
    "two standbys, one container on a host": "an active and two standbys; 5 hosts; 1 slot",
    "no host affinity": "two pairs; no affinity",
}


@dataclass(frozen=True)
class Story:
    """A row: the job, its steps, and what is seen once everything runs again."""

    job: str
    steps: str
    outcomes: str
    stopped: str
    places: str

    def __str__(self) -> str:
        return f"{self.job}: {self.steps}"


def stories() -> list[Story]:
    """The rows of `stories.txt`: a job's name stands before its own, `#` before a remark."""
    found: list[Story] = []
    name = ""
    for line in TOLD.read_text(encoding="utf-8").splitlines():
        if line.startswith("= "):
            name = line[2:]
        elif line and not line.startswith("#"):
            found.append(Story(name, *(cell.strip() for cell in line.split("|"))))
    return found


def tell(story: Story) -> Scene:
    """The world in which the story's steps were taken, once everything runs again."""
    return ended(take(job(JOBS[story.job]), story.steps))


def seen(world: Scene) -> tuple[str, str, str]:
    """The outcome of each request, who was told to stop, and who is elsewhere than at first."""
    outcomes = [world.outcome(uuid)[0] for uuid in world.asks() if uuid.startswith("u")]
    homes = {pid: incarnation.host for pid, incarnation in world.first.items()}
    pids = sorted(homes.keys() | world.phases().keys())
    places = {pid: world.placed(pid) if pid in world.phases() else "gone" for pid in pids}
    moved = [f"{pid} {host}" for pid, host in places.items() if host != homes.get(pid)]
    return " ".join(outcomes) or "-", " ".join(world.stopped()) or "-", ", ".join(moved) or "home"


def on_record(world: Scene) -> list[str]:
    """Each answer and each start, in order and word for word."""
    lines: list[str] = []
    for command in world.log:
        if isinstance(command, cmd.WriteResponse):
            fields = {
                "at": command.stage,
                "started": command.started,
                "on": command.host,
                "stopped": " ".join(command.stopped),
                "of": command.refers_to,
            }
            where = "".join(f" {name} {value}" for name, value in fields.items() if value)
            lines.append(f"{command.uuid} {command.status}{where}: {command.message}")
        elif isinstance(command, cmd.RecordCertificate) and command.record.kind == "start":
            start = command.record
            before = start.predecessor.how if start.predecessor else "nobody"
            lines.append(f"{start.processor_id} starts on {start.host} after {before}: {start.why}")
    return lines


def main() -> None:
    """Writes the record anew."""
    record = {str(story): on_record(tell(story)) for story in stories()}
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
