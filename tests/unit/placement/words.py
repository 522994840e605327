"""The words that scenes are told in: what happens here, what is seen in `sights`.

A scene is a list of steps, and each is read by one of the patterns, whole. `until … within 5 s`
gives a deadline: so much of the scene's time from where that step begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import Phase, Stage
from tests.simulation.hosts import Trouble
from tests.simulation.moves import Move
from tests.simulation.steps import handle
from tests.unit.placement.scenes import PLACES, Scene, ask, groups_of, own
from tests.unit.placement.sights import SIGHTS, every, same

HOLD_MS = 60_000
PLACE = RequestKind.PLACE


def submit(
    world: Scene, kind: RequestKind, processor_id: str, to: str = "", **more: object
) -> None:
    """A request; the nth has the uuid `un`, and is younger than those before."""
    number = 1 + sum(uuid.startswith("u") for uuid in world.asks())
    request = ask if kind is PLACE else (lambda *rest, **named: own(kind, *rest, **named))
    given = {"at_ms": 9 + number, **{name: it for name, it in more.items() if it is not None}}
    wish = request(processor_id, to, uuid=f"u{number}", **given)  # type: ignore[arg-type]
    world.submit(wish.evolve(deployment_id=world.state.deployment_id))


def move(world: Scene, who: str, to: str, s: str | None = None, at: str | None = None) -> None:
    expiry_ms, at_ms = (None if n is None else int(float(n) * 1_000) for n in (s, at))
    submit(world, PLACE, who, to, expiry_ms=expiry_ms, at_ms=at_ms)


def fail_over(world: Scene, who: str, s: str | None = None, of: str | None = None) -> None:
    number = 1 + sum(uuid.startswith("u") for uuid in world.asks())
    expiry_ms = None if s is None else int(s) * 1_000
    wish = own(RequestKind.FAIL_OVER, who, uuid=f"u{number}", at_ms=9 + number, expiry_ms=expiry_ms)
    which = {None: "", "as it was at first": world.first[who].execution_id}.get(of, of)
    world.submit(wish.evolve(execution_id=which))


def control(world: Scene, word: str, uuid: str) -> None:
    number = 1 + sum(known.startswith("c") for known in world.asks())
    world.control(RequestKind(word), uuid=f"c{number}", of=uuid)


def deploy(world: Scene, processor_ids: str = "", where: str | None = None) -> None:
    """The next deployment, of the same processors if none are named."""
    if processor_ids:
        world.groups = groups_of(processor_ids.split(", "))
    number = int(world.state.deployment_id.partition("-")[2] or 0) + 1
    places = PLACES if where else world.places
    world.deploy(world.groups, deployment_id=f"run-{number}", last_seen=places, limits=world.limits)


def late_request(world: Scene, who: str, to: str, run: str) -> None:
    world.submit(ask(who, to, uuid="late", deployment_id=run))


def allocate(world: Scene, host: str, who: str) -> None:
    """What was asked for first is answered, as if nothing else had come between."""
    first = next(r for r in world.sent(cmd.RequestResource) if r.processor_id == who)
    handle(world, ev.ResourceAllocated(world.now_ms, first.request_id, host))


def report_twice(world: Scene) -> None:
    for _ in range(40):
        for host, it in world.hosts.items():
            if it.reports:
                assert world.do(Move("duplicate", (host,)))
        world.next_move()


def grow(world: Scene, host: str, slots: str) -> None:
    world.hosts[host].memory_mb, world.hosts[host].cores = 384 * int(slots), int(slots)


def power_cut(world: Scene, host: str) -> None:
    """Its last records were never written."""
    assert world.do(Move("reboot", (host,)))
    world.hosts[host].journal.clear()
    world.register(host)


def register_all(world: Scene, but: str | None = None) -> None:
    for host in world.hosts:
        if host != but:
            world.register(host)


def stall(world: Scene, processor_id: str, seconds: str = "120") -> None:
    """It is told that the processor stands still."""
    why, for_ms = "it stands at offset 3, the end is 9", int(float(seconds) * 1_000)
    handle(world, ev.StandbyStalled(world.now_ms, world.execution(processor_id), why, for_ms))


def ended(world: Scene) -> Scene:
    """The world once everything runs again and no request waits."""
    world.until_all_run()
    world.until(lambda: all(not g.queue and g.action is None for g in world.state.groups.values()))
    world.until_all_run()
    return world


def crash_often(world: Scene, who: str, times: str) -> None:
    for _ in range(int(times)):
        world.until_all_run()
        world.crash(who)
        world.until(lambda: world.phases()[who] is not Phase.RUNNING)


def stagger(world: Scene) -> None:
    """Between request and check-in."""
    busy = (Phase.REQUESTING, Phase.RESERVED, Phase.STARTING)
    while world.next_move():
        assert sum(phase in busy for phase in world.phases().values()) <= 2
    same(set(world.phases().values()), {Phase.RUNNING})


def in_time(world: Scene, until: str, s: str) -> None:
    """What is waited for is so once these seconds have passed, or sooner."""
    began_ms = world.now_ms
    world.due_ms = began_ms + int(s) * 1_000
    try:
        step(world, until)
    except AssertionError as error:
        raise AssertionError(f"after {(world.now_ms - began_ms) / 1_000:g} s {error}") from error
    finally:
        world.due_ms = None


TROUBLES = {
    "starts nothing": Trouble.NO_START,
    "stops nothing": Trouble.STUBBORN,
    "stops slowly": Trouble.SLOW_STOP,
    "lets nobody check in": Trouble.NO_CHECK_IN,
}
MACHINES = {
    "reboots": "reboot",
    "is installed anew": "reimage",
    "is another machine": "other-machine",
    "has another directory": "other-directory",
}
MOVES = {
    r"(\S+) is cut off": lambda host: Move("cut", (host, "both")),
    r"(\S+) is frozen": lambda host: Move("freeze", (host, "suspend")),
    r"(\S+) is paused": lambda host: Move("freeze", (host, "pause")),
    r"(\S+) thaws": lambda host: Move("thaw", (host,)),
    r"the fence isn't answered": lambda: Move("fence-unanswered", (0,)),
    r"the leader dies": lambda: Move("kill-leader"),
    r"a spare takes over": lambda: Move("take-over"),
    r"(\S+) is read again": lambda uuid: Move("reread", (uuid,)),
    r"the clock of (\S+) goes back by (\d+) s": lambda host, s: Move(
        "clock", (host, -1_000 * int(s))
    ),
}


def moving(made: Callable[..., Move]) -> Callable[..., object]:
    def act(world: Scene, *words: str) -> None:
        assert world.do(made(*words))

    return act


ACTS: dict[str, Callable[..., object]] = {
    r"(?:move|restart) (\S+) (?:to|at) (\S+)(?: within (\d+) s)?(?: asked at ([\d.]+) s)?": move,
    r"reserve (\S+) for (\S+)(?: for (\d+) s)?": lambda w, host, who, s: submit(
        w, PLACE, who, host, hold=True, expiry_ms=HOLD_MS if s is None else int(s) * 1_000
    ),
    r"fail (\S+) over(?: within (\d+) s)?(?: if it is (.+))?": fail_over,
    r"start a standby of (\S+) on (\S+)": lambda w, who, host: submit(
        w, RequestKind.START_STANDBY, who, host
    ),
    r"stop standby (\S+)": lambda w, who: submit(w, RequestKind.STOP_STANDBY, who),
    r"(commit|release|cancel) (\S+)": control,
    r"(\S+) dies": Scene.crash,
    r"(\S+) dies (\d+) times": crash_often,
    r"(\S+) dies and its room is taken": Scene.evict,
    r"(\S+) is (\d+) records behind": lambda w, who, n: w.lag(who, int(n)),
    r"(\S+) is (\d+) records behind, (\d+) s from ready": lambda w, who, n, s: w.lag(
        who, int(n), int(s) * 1_000
    ),
    r"(\S+) is said to stand still(?: for ([\d.]+) s)?": lambda w, who, s: stall(
        w, who, s or "120"
    ),
    r"(\S+) is lost": Scene.lose,
    r"(\S+) is back": Scene.come_back,
    r"(\S+) is full": Scene.fill,
    r"(\S+) has room": Scene.make_room,
    r"(\S+) registers": lambda w, host: w.register(host),
    r"all hosts register": register_all,
    r"all hosts but (\S+) register": register_all,
    rf"(\S+) ({'|'.join(TROUBLES)})": lambda w, host, what: w.trouble(host, TROUBLES[what]),
    rf"(\S+) ({'|'.join(MACHINES)})": lambda w, host, what: w.take_name(MACHINES[what], host),
    r"(\S+) works": Scene.calm,
    r"the request for (\S+) expires": Scene.expire,
    r"the cluster forgets what was asked": lambda w: w.leader.requests.pending.clear(),
    r"the cluster forgets what it was asked last": lambda w: w.leader.requests.pending.pop(
        w.sent(cmd.RequestResource)[-1].request_id
    ),
    r"the sequence of (\d+) is noted": lambda w, group: setattr(
        w, "sequences", {g.group_id: g.sequence + (g.group_id == group) for g in every(w)}
    ),
    r"commands to (\S+) are lost": lambda w, host: w.hosts[host].commands.clear(),
    r"([\d.]+) s pass": lambda w, s: w.wait(int(float(s) * 1_000)),
    r"another coordinator takes over": Scene.restart_coordinator,
    r"another deployment begins": deploy,
    r"(.+) (?:is|are) deployed(?: (where they were))?": deploy,
    r"move (\S+) to (\S+) as of (\S+)": late_request,
    r"(\S+) is allocated to (\S+) after all": allocate,
    r"(\S+) has a power cut": power_cut,
    r"each report comes twice": report_twice,
    r"(\S+) has (\d+) slots": grow,
    r"from now on": Scene.from_now_on,
    r"all is well again": lambda w: w.settle(),
    r"in the end": ended,
    r"(until .+) within (\d+) s": in_time,
    rf"until ({'|'.join(Stage)})": lambda w, stage: w.until_stage(Stage(stage)),
    r"until it has ended(?: in (\d+))?": lambda w, group: w.until_stage(None, group or "0"),
    rf"until (\S+) is ({'|'.join(Phase)})": lambda w, who, phase: w.until_phase(who, Phase(phase)),
    r"until (\S+) is down": lambda w, who: w.until(lambda: w.phases()[who] is not Phase.RUNNING),
    r"until (\S+) is on (\S+)": lambda w, who, host: w.until(lambda: w.where(who) == host),
    r"until (\S+) is gone": lambda w, who: w.until(lambda: w.where(who) is None),
    r"until (\S+) is asked for anywhere(?: (\d+) times)?": lambda w, who, n: w.until(
        lambda: w.asked_for(who).count(None) == int(n or 1), limit=3_000
    ),
    r"until (\S+) was started (\d+) times": lambda w, who, n: w.until(
        lambda: [pid for pid, _ in w.started()].count(who) == int(n), limit=5_000
    ),
    r"until ([\d.]+) s have passed": lambda w, s: w.until(
        lambda: w.now_ms - w.since_ms >= float(s) * 1_000, limit=20_000
    ),
    r"until (\S+) was counted": lambda w, name: w.until(lambda: w.counted()[name] == 1),
    r"until (\S+) avoids (\S+)": lambda w, who, host: w.until(
        lambda: w.processor(who).avoid_hosts == (host,)
    ),
    r"until (\S+) was told to stop again": lambda w, who: w.until(lambda: who in w.stopped()),
    r"until an orphan of (\d+) has ended": lambda w, group: w.until(
        lambda: any(g.ended for g in w.group(group).orphans)
    ),
    r"until (\S+) counts as lost": lambda w, host: w.until(lambda: not w.state.hosts[host].alive),
    r"never more than 2 start until all run": stagger,
    r"until 0 fails over": lambda w: w.until(lambda: w.group().failover is not None),
    r"until nobody moves": lambda w: w.until(lambda: not w.moves()),
    r"until all run": Scene.until_all_run,
    **{pattern: moving(made) for pattern, made in MOVES.items()},
}


def step(world: Scene, told: str) -> None:
    """What the step tells happens, or is seen."""
    for form, act in (ACTS | SIGHTS).items():
        if words := re.fullmatch(form, told):
            act(world, *words.groups())
            return
    raise LookupError(f"no step reads {told!r}")


def take(world: Scene, steps: str) -> Scene:
    """The world after these steps; raises `AssertionError` where it isn't as a step sees it."""
    for told in steps.split("; "):
        try:
            step(world, told)
        except AssertionError as error:
            raise AssertionError(f"{told}: {error}") from error
    return world
