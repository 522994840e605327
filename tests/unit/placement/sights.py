"""What scenes see: each pattern's sight raises `AssertionError` with what is so instead."""

from __future__ import annotations

from collections.abc import Callable

from samza_dagster.placement import codec, texts
from samza_dagster.placement import commands as cmd
from samza_dagster.placement.explain import explain
from samza_dagster.placement.reducer import next_deadline_ms
from samza_dagster.placement.state import Group, Phase, Stage, request_of
from tests.simulation.judges.legality import chosen_by
from tests.unit.placement.scenes import Scene, whose


def same(seen: object, told: object) -> None:
    if seen != told:
        raise AssertionError(f"it is {seen!r}, not {told!r}")


def so(seen: object, told: str) -> None:
    if not seen:
        raise AssertionError(f"it isn't so: {told}")


def listed(names: str) -> list[str]:
    return [] if names == "-" else names.split(", ")


def see_outcome(world: Scene, uuid: str, statuses: str, words: str | None = None) -> None:
    """The statuses of a request, or its last one; and parts of what it was told last."""
    if ", " in statuses:
        same(", ".join(world.statuses(uuid)), statuses)
    else:
        same(world.outcome(uuid)[0], statuses)
    message = world.outcome(uuid)[1]
    so(all(part in message for part in (words or "").split(" + ")), message)


def every(world: Scene) -> list[Group]:
    return list(world.state.groups.values())


def last_request(world: Scene, who: str) -> cmd.RequestResource:
    return [r for r in world.sent(cmd.RequestResource) if r.processor_id == who][-1]


def is_alive(world: Scene, who: str) -> bool:
    """The first incarnation still has a process somewhere."""
    return any(p.execution_id == world.first[who].execution_id for p in world.processes())


def see_asked(world: Scene, who: str, hosts: str) -> None:
    same([host or "anywhere" for host in world.asked_for(who)], listed(hosts))


def see_left_out(world: Scene, who: str, hosts: str) -> None:
    """Hosts that its last request leaves out."""
    left_out = last_request(world, who).excluded_hosts
    so(set(listed(hosts)) <= set(left_out), f"{hosts} in {left_out}")


def see_legal(world: Scene, who: str, where: str, rule: str = "", why: str | None = None) -> None:
    candidate = next(c for c in explain(world.state, who, where).candidates)
    same((candidate.rule, candidate.legal), (rule, not rule))
    said = str(candidate)
    so(all(part in said for part in (why or "").split(" + ")), said)


def see_orphans(world: Scene, group_id: str, told: str) -> None:
    """Those whose host fell silent, each with how it has ended, if it has."""
    orphans = world.group(group_id).orphans
    same([f"{g.processor_id} {g.ended or 'alive'}" for g in orphans], listed(told))


def see_ends(world: Scene, who: str, told: str) -> None:
    """How the first incarnation ended, each way that was recorded."""
    ends = [c.record for c in world.sent(cmd.RecordCertificate) if c.record.kind == "end"]
    same([r.how for r in ends if r.execution_id == world.first[who].execution_id], listed(told))


def see_said(world: Scene, told: str) -> None:
    """Commands in order, by name and processor, of the kinds that are named."""
    kinds = {words.split(" ")[0] for words in listed(told)}
    said = [c for c in world.log if type(c).__name__ in kinds]
    names = [f"{type(c).__name__} {whose(c)}".strip() for c in said]
    same(names, listed(told))


def see_counted(world: Scene, told: str) -> None:
    names = (words.rsplit(" ", 1) for words in listed(told))
    same(dict(world.counted()), {name: int(number) for name, number in names})


def see_candidates(world: Scene, who: str, where: str, told: str) -> None:
    found = [f"{c.host} {c.rule or 'legal'}" for c in explain(world.state, who, where).candidates]
    same(found, listed(told))


def see_given_back(world: Scene, who: str) -> None:
    """The last of its requests that was for any host."""
    asked = [r for r in world.sent(cmd.RequestResource) if r.processor_id == who and not r.host]
    so(any(cmd.ReleaseResource(r.request_id) in world.log for r in asked), "one was released")


def see_turns(world: Scene) -> None:
    """Each of those that wait was asked for once before any was asked for again."""
    asked = [r.processor_id for r in world.sent(cmd.RequestResource)]
    several = len(set(asked))
    so(several > 1, f"several wait: {asked}")
    for first in range(len(asked) - several):
        same(len(set(asked[first : first + several])), several)


def see_after(world: Scene, what: str, told: str) -> None:
    """What else the step said that said this, counters left out."""
    kind = getattr(cmd, what.split(" ", maxsplit=1)[0])
    said = [name for name in world.commands_with(kind) if not name.startswith("CountMetric")]
    same(said[said.index(what) + 1 :], listed(told))


def see_begun(world: Scene, told: str) -> None:
    """Requests in the order in which their actions began."""
    begun = [r.uuid for r in world.responses() if r.status == "IN_PROGRESS"]
    same(list(dict.fromkeys(begun)), listed(told))


def see_starts(world: Scene) -> None:
    """Who runs was known when the resource was asked for; each request is started on once."""
    asked = {r.request_id: r.execution_id for r in world.sent(cmd.RequestResource)}
    starts = world.sent(cmd.StartContainer)
    so(starts, "somebody starts")
    same([asked[s.request_id] for s in starts], [s.execution_id for s in starts])
    same(len({s.request_id for s in starts}), len({s.execution_id for s in starts}))


def see_clean(world: Scene) -> None:
    """All of the deployment runs, and nothing that isn't its own."""
    same(world.phases(), dict.fromkeys(world.places, Phase.RUNNING))
    so(all(group.action is None for group in every(world)), "no action")
    same(world.held_resources(), {})


def see_left(world: Scene) -> None:
    orphans = [orphan for group in every(world) for orphan in group.orphans]
    so(orphans and all(orphan.left_behind for orphan in orphans), "all were left behind")


def see_expiry(world: Scene, who: str, s: str, ahead: str) -> None:
    last = last_request(world, who)
    same((last.expires_in_ms, last.ahead), (int(s) * 1_000, ahead == "ahead"))


def see_reservation(world: Scene) -> None:
    action = world.group().action
    request = request_of(action)
    assert request is not None
    same(request.request_id, world.sent(cmd.RequestResource)[-1].request_id)


def see_last_word(world: Scene, s: str, host: str) -> None:
    same((world.now_ms - world.leader.known_hosts[host].heard_ms) / 1_000, float(s))


def see_lease(world: Scene, s: str, host: str) -> None:
    [orphan] = world.group().orphans
    assert orphan.lease_ends_ms is not None
    same((orphan.lease_ends_ms - world.leader.known_hosts[host].heard_ms) / 1_000, float(s))


def see_echo(world: Scene, *told: str) -> None:
    [r] = world.sent(cmd.WriteResponse)
    seen = (r.processor_id, r.deployment_id, r.destination_host, str(r.request_expiry_ms))
    same(seen, told)


def see_both(world: Scene, uuid: str, who: str) -> None:
    for name in (world.first[who].execution_id, world.execution(who)):
        so(name in world.outcome(uuid)[1], f"{name} in {world.outcome(uuid)[1]}")


def see_regrouped(world: Scene) -> None:
    told = codec.job_from_json(codec.job_to_json(world.state)).regrouped_epoch
    so(told == world.state.regrouped_epoch > 0, f"{told}, {world.state.regrouped_epoch}")


SIGHTS: dict[str, Callable[..., object]] = {
    r"(\S+) is on (\S+)(?: or (\S+))?": lambda w, who, *hosts: so(
        w.placed(who) in [h for h in hosts if h], f"{who} on {w.placed(who)}"
    ),
    rf"(\S+) is ({'|'.join(Phase)})": lambda w, who, phase: same(w.phases()[who], Phase(phase)),
    r"(\S+) is nowhere": lambda w, who: same(w.placed(who), None),
    r"(\S+) is known no more": lambda w, who: so(who not in w.phases(), f"{w.phases()}"),
    r"all run": lambda w: same(set(w.phases().values()), {Phase.RUNNING}),
    r"(\S+) are all there is": lambda w, names: same(sorted(w.phases()), names.split(",")),
    rf"the action is (?:at )?({'|'.join(Stage)}|over)": lambda w, stage: same(
        w.stage("0") or "over", stage
    ),
    r"(\d+) fails? over": lambda w, group: so(w.group(group).failover, "a failover"),
    r"(\S+) was asked for on (.+)": see_asked,
    r"(\S+) leaves out (?!just|where)(.+)": see_left_out,
    r"told to stop: (.+)": lambda w, names: same(w.stopped(), listed(names)),
    r"told to start: (.+)": lambda w, names: same(
        [f"{pid} on {host}" for pid, host in w.started()], listed(names)
    ),
    r"(u\d|c\d) was told ([A-Z_]+(?:, [A-Z_]+)*)(?:: (.+))?": see_outcome,
    r"(u\d) waits: (.+)": lambda w, uuid, why: same(
        w.outcome(uuid), ("ACCEPTED", texts.accepted(why))
    ),
    r"counted: (.+)": see_counted,
    r"(\d+) (\S+) were counted": lambda w, n, name: same(w.counted()[name], int(n)),
    r"(\S+) follows one that was (\S+)": lambda w, who, how: same(str(w.how_replaced(who)), how),
    r"(\S+) started because of (.+)": lambda w, who, why: same(w.why_started(who), why),
    r"([\d.]+) s have passed": lambda w, s: same((w.now_ms - w.since_ms) / 1_000, float(s)),
    r"at most ([\d.]+) s have passed": lambda w, s: so(
        w.now_ms - w.since_ms <= float(s) * 1_000, f"{w.now_ms - w.since_ms} ms"
    ),
    r"(\S+) may go to (\S+)": see_legal,
    r"(\S+) may not go to (\S+) by (\S+?)(?:: (.+))?": see_legal,
    r"orphans of (\d+): (.+)": see_orphans,
    r"(\S+) as it was at first ended: (.+)": see_ends,
    r"room is held on (.+)": lambda w, hosts: same(
        sorted(w.held_resources().values()), listed(hosts)
    ),
    r"(\S+) is as at first": lambda w, who: same(w.execution(who), w.first[who].execution_id),
    r"(\S+) isn't as at first": lambda w, who: so(
        w.execution(who) != w.first[who].execution_id, who
    ),
    r"said: (.+)": see_said,
    r"never said: (\S+)": lambda w, name: so(
        name not in [type(c).__name__ for c in w.log], f"{w.log}"
    ),
    r"nothing was said": lambda w: same(w.log, []),
    r"all that was said is a deletion": lambda w: same(w.log, [cmd.DeleteRequest("late")]),
    r"after (.+) one step said: (.+)": see_after,
    r"localities: (.+)": lambda w, told: same(
        [f"{pid} {host}" for pid, host in sorted(w.locality().items())], listed(told)
    ),
    r"the certificate of (\S+) has a lag of (\d+) records, (\d+) ms from ready": lambda w, who, n, ms: (
        same((w.certificate(who).lag_records, w.certificate(who).ready_in_ms), (int(n), int(ms)))
    ),
    r"the request for (\S+) anywhere was given back": see_given_back,
    r"(\S+) isn't with (\S+)": lambda w, one, other: so(
        w.placed(one) != w.placed(other), f"{one} and {other} on {w.placed(one)}"
    ),
    r"(\S+) isn't running": lambda w, who: so(w.phases()[who] is not Phase.RUNNING, who),
    r"(\S+) isn't wanted": lambda w, who: same(w.processor(who).wanted, False),
    r"no lag of (\S+) is kept": lambda w, who: so(who not in w.state.lags, f"{w.state.lags}"),
    r"(\S+) was asked for (\d+) s, (ahead|not ahead)": see_expiry,
    r"the action waits for what was asked last": see_reservation,
    r"the action chose (.+)": lambda w, hosts: same([chosen_by(w.group().action)], listed(hosts)),
    r"(\S+) has failed (\d+) times": lambda w, who, n: same(w.processor(who).failures, int(n)),
    r"at most (\d+) failures of (\S+) count": lambda w, most, who: so(
        len(w.processor(who).failed_at_ms) <= int(most), f"{w.processor(who)}"
    ),
    r"(\S+) leaves out just (.+)": lambda w, who, hosts: same(
        list(last_request(w, who).excluded_hosts), listed(hosts)
    ),
    r"(\S+) leaves out where (\S+) is": lambda w, who, other: so(
        w.placed(other) in last_request(w, who).excluded_hosts, f"{last_request(w, who)}"
    ),
    r"all orphans were left behind": see_left,
    r"who has waited longest was asked for first": see_turns,
    r"(\S+) as it was at first was told to stop": lambda w, who: so(
        w.first[who].execution_id in [c.execution_id for c in w.sent(cmd.StopContainer)],
        "it was told to stop",
    ),
    r"the resource that (\S+) had at first was released": lambda w, who: so(
        cmd.ReleaseResource(w.first[who].request_id) in w.log, "released"
    ),
    r"(\S+) as it was at first was forgotten on (\S+)": lambda w, who, host: so(
        cmd.ForgetContainer(w.first[who].execution_id, host) in w.log
        and w.first[who].execution_id not in w.hosts[host].journal,
        "it was forgotten",
    ),
    r"(\S+) as it was at first was never forgotten": lambda w, who: so(
        w.first[who].execution_id not in [c.execution_id for c in w.sent(cmd.ForgetContainer)],
        "no agent was told to forget it",
    ),
    r"(\S+) lives on as it was at first": lambda w, who: so(is_alive(w, who), f"{who} lives"),
    r"(\S+) lives no more as it was at first": lambda w, who: so(
        not is_alive(w, who), f"{who} has ended"
    ),
    r"(\S+) alone owns tasks, as at first": lambda w, who: same(
        [p.execution_id for p in w.processes() if p.released], [w.first[who].execution_id]
    ),
    r"([\d.]+) s since the last word of (\S+)": see_last_word,
    r"the lease of 0 ends ([\d.]+) s after the last word of (\S+)": see_lease,
    r"(\S+) has no lease that ends": lambda w, who: same(
        [g.lease_ends_ms for group in every(w) for g in group.orphans if g.processor_id == who],
        [None],
    ),
    r"no request is left on the stream": lambda w: same(w.brokers.topic, {}),
    r"the response echoes (.+), (.+), (.+), (.+)": see_echo,
    r"(\S+) was told once": lambda w, uuid: same(len(w.responses_to(uuid)), 1),
    r"(u\d) is answered on our own topic": lambda w, uuid: so(
        all(r.own for r in w.responses()) and cmd.DeleteRequest(uuid, own=True) in w.log,
        "all answers are our own",
    ),
    r"(u\d) names both incarnations of (\S+)": see_both,
    r"the queue of (\S+) remembers its incarnation": lambda w, who: same(
        [queued.execution_id for queued in w.group(who).queue], [w.first[who].execution_id]
    ),
    r"begun: (.+)": see_begun,
    r"each start is the incarnation that its request named": see_starts,
    r"(\S+) to (\S+) meets: (.+)": see_candidates,
    r"at most (\d+) were asked for": lambda w, n: so(
        len(w.sent(cmd.RequestResource)) <= int(n), f"{len(w.sent(cmd.RequestResource))}"
    ),
    r"at most (\d+) starts were told": lambda w, n: so(
        len(w.started()) <= int(n), f"{len(w.started())}"
    ),
    r"it is as if nothing had been": see_clean,
    r"nothing is due": lambda w: same(next_deadline_ms(w.state), None),
    r"a coordinator that takes over knows that tasks changed groups": see_regrouped,
    r"tasks haven't changed groups": lambda w: same(w.state.regrouped_epoch, 0),
    r"the sequence of \d+ is one more": lambda w: same(
        {g.group_id: g.sequence for g in every(w)}, w.sequences
    ),
}
