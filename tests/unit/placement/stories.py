"""Scenes told in a line each: what is asked and what goes wrong, and what has become of it.

`python -m tests.unit.placement.stories` writes `tests/data/responses.json` anew: every answer, and
every start with its reason, of each story that `stories.txt` tells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from samza_dagster.placement import commands as cmd
from samza_dagster.placement.state import AskKind, Phase, Stage
from samza_dagster.simulation.hosts import Trouble
from tests.unit.placement.scenes import GROUPS, HOSTS, PLACES, QUICK, Scene, ask, own, running

TOLD = Path(__file__).with_name("stories.txt")
RECORD = Path(__file__).parents[2] / "data" / "responses.json"
HOLD_MS = 60_000
REPLICAS = {"0": ("0", "0-0", "0-1")}
FIVE_HOSTS = (*HOSTS, "host-5")
REPLICA_PLACES = {"0": "host-1", "0-0": "host-2", "0-1": "host-3"}
JOBS: dict[str, Callable[[], Scene]] = {
    "an active and its standby": lambda: running(limits=QUICK),
    "actives alone": lambda: running(
        {"0": "host-1", "1": "host-3"}, groups={"0": ("0",), "1": ("1",)}, limits=QUICK
    ),
    "two standbys": lambda: running(
        REPLICA_PLACES, groups=REPLICAS, hosts=FIVE_HOSTS, limits=QUICK
    ),
    "two standbys, one container on a host": lambda: running(
        REPLICA_PLACES, groups=REPLICAS, hosts=FIVE_HOSTS, limits=QUICK, slots=1
    ),
    "no host affinity": lambda: running(limits=QUICK.evolve(host_affinity=False)),
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
    job = ""
    for line in TOLD.read_text(encoding="utf-8").splitlines():
        if line.startswith("= "):
            job = line[2:]
        elif line and not line.startswith("#"):
            found.append(Story(job, *(cell.strip() for cell in line.split("|"))))
    return found


def submit(world: Scene, kind: AskKind, processor_id: str, to: str = "", **more: object) -> None:
    """A request; the nth has the uuid `un`, and is younger than those before."""
    number = 1 + sum(uuid.startswith("u") for uuid in world.asks())
    request = ask if kind is AskKind.PLACE else (lambda *rest, **named: own(kind, *rest, **named))
    world.submit(request(processor_id, to, uuid=f"u{number}", at_ms=9 + number, **more))  # type: ignore[arg-type]


def control(world: Scene, word: str, uuid: str) -> None:
    number = 1 + sum(known.startswith("c") for known in world.asks())
    world.control(AskKind(word), uuid=f"c{number}", of=uuid)


PLACE = AskKind.PLACE
TROUBLES = {
    "starts nothing": Trouble.NO_START,
    "stops nothing": Trouble.STUBBORN,
    "stops slowly": Trouble.SLOW_STOP,
    "lets nobody check in": Trouble.NO_CHECK_IN,
}
STEPS: dict[str, Callable[..., object]] = {
    r"(?:move|restart) (\S+) (?:to|at) (\S+)": lambda w, who, to: submit(w, PLACE, who, to),
    r"move (\S+) to (\S+) within (\d+) s": lambda w, who, to, s: submit(
        w, PLACE, who, to, expiry_ms=int(s) * 1_000
    ),
    r"reserve (\S+) for (\S+)": lambda w, host, who: submit(
        w, PLACE, who, host, hold=True, expiry_ms=HOLD_MS
    ),
    r"fail (\S+) over": lambda w, who: submit(w, AskKind.FAIL_OVER, who),
    r"start a standby of (\S+) on (\S+)": lambda w, who, host: submit(
        w, AskKind.START_STANDBY, who, host
    ),
    r"stop standby (\S+)": lambda w, who: submit(w, AskKind.STOP_STANDBY, who),
    r"(commit|release|cancel) (\S+)": control,
    r"(\S+) dies": Scene.crash,
    r"(\S+) dies and its room is taken": Scene.evict,
    r"(\S+) is (\d+) records behind": lambda w, who, n: w.lag(who, int(n)),
    r"(\S+) is (\d+) records behind, (\d+) s from ready": lambda w, who, n, s: w.lag(
        who, int(n), int(s) * 1_000
    ),
    r"(\S+) is lost": Scene.lose,
    r"(\S+) is back": Scene.come_back,
    r"(\S+) is full": Scene.fill,
    r"(\S+) has room": Scene.make_room,
    rf"(\S+) ({'|'.join(TROUBLES)})": lambda w, host, what: w.trouble(host, TROUBLES[what]),
    r"(\S+) works": Scene.calm,
    r"the request for (\S+) expires": Scene.expire,
    r"(\d+) s pass": lambda w, s: w.wait(int(s) * 1_000),
    r"another coordinator takes over": Scene.restart_coordinator,
    r"another deployment begins": lambda w: w.deploy(
        GROUPS, deployment_id="run-2", last_seen=PLACES, limits=QUICK
    ),
    rf"until ({'|'.join(Stage)})": lambda w, stage: w.until_stage(Stage(stage)),
    r"until it has ended": lambda w: w.until_stage(None),
    rf"until (\S+) is ({'|'.join(Phase)})": lambda w, who, phase: w.until_phase(who, Phase(phase)),
    r"until (\S+) is on (\S+)": lambda w, who, host: w.until(lambda: w.where(who) == host),
    r"until (\S+) is gone": lambda w, who: w.until(lambda: w.where(who) is None),
    r"until 0 fails over": lambda w: w.until(lambda: w.group().failover is not None),
    r"until all run": Scene.until_all_run,
}


def take(world: Scene, steps: str) -> Scene:
    """The world after these steps."""
    for step in steps.split("; "):
        for form, act in STEPS.items():
            if words := re.fullmatch(form, step):
                act(world, *words.groups())
                break
        else:
            raise LookupError(f"no step reads {step!r}")
    return world


def tell(story: Story) -> Scene:
    """The world in which the story's steps were taken, once everything runs again."""
    return ended(take(JOBS[story.job](), story.steps))


def ended(world: Scene) -> Scene:
    """The world once everything runs again and no request waits."""
    world.until_all_run()
    world.until(lambda: all(not g.queue and g.action is None for g in world.state.groups.values()))
    world.until_all_run()
    return world


def seen(story: Story, world: Scene) -> tuple[str, str, str]:
    """The outcome of each request, who was told to stop, and who is elsewhere than at first."""
    before = JOBS[story.job]()
    outcomes = [world.outcome(uuid)[0] for uuid in world.asks() if uuid.startswith("u")]
    pids = sorted(before.phases().keys() | world.phases().keys())
    places = {pid: world.placed(pid) if pid in world.phases() else "gone" for pid in pids}
    homes = {pid: before.placed(pid) for pid in before.phases()}
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
            ended = start.predecessor.how if start.predecessor else "nobody"
            lines.append(f"{start.processor_id} starts on {start.host} after {ended}: {start.why}")
    return lines


def main() -> None:
    """Writes the record anew."""
    record = {str(story): on_record(tell(story)) for story in stories()}
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
