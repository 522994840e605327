"""What a client is told is so: status and details against what was seen to happen.

Texts are for people. Of a refusal it is judged whether it names what stands in the way.
"""

from __future__ import annotations

from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import Action, Fallback, Group, Move, Phase, Stage
from tests.simulation.judges.chronicle import CONTROLS, TERMINAL, Chronicle, SeenRequest
from tests.simulation.judges.claims import judge_claims, judge_evidence
from tests.simulation.judges.legality import (
    displaced_by,
    group_with,
    reasons,
    subject_of,
    takes_place_on,
)
from tests.simulation.judges.refusals import refusal
from tests.simulation.judges.taken import Taken
from tests.simulation.judges.violation import TRUE_WORDS

_STOPPING = (Stage.STOPPING, Stage.STOPPING_STANDBY)
_WORDS = {RequestKind.RELEASE: "released", RequestKind.CANCEL: "cancelled"}
Last = dict[str, cmd.WriteResponse]


def judge_words(chronicle: Chronicle, taken: Taken) -> None:
    """Every response of a step, and that each that is due was given."""
    last: Last = {}
    for response in taken.every(cmd.WriteResponse):
        chronicle.premises[TRUE_WORDS] += 1
        _judge_response(chronicle, taken, response)
        _judge_why_not_started(taken, response)
        last[response.uuid] = response
    judge_evidence(taken)
    if isinstance(taken.event, ev.RequestArrived):
        _judge_arrival(taken, taken.event, last)
    for old, new in taken.changed:
        _judge_answered(chronicle, taken, old, new, last)


def _judge_response(chronicle: Chronicle, taken: Taken, response: cmd.WriteResponse) -> None:
    asked = chronicle.asked.get(response.uuid)
    if asked is None:
        return
    ask = asked.ask
    if response.refers_to != (ask.refers_to if ask.kind in CONTROLS else ""):
        raise taken.broken(TRUE_WORDS, f"{response} is about {ask.refers_to or 'no other'}")
    stands = {"ACCEPTED": ["queued"], "IN_PROGRESS": list(Stage)}.get(response.status, [""])
    if response.stage not in stands:
        raise taken.broken(TRUE_WORDS, f"{response} is none of {stands}")
    if "None" in response.message or "  " in f"{response.message} ":
        raise taken.broken(TRUE_WORDS, f"{response} has no word for something")
    _judge_started(taken, asked, response)
    judge_claims(taken, ask, response)


def _judge_started(taken: Taken, asked: SeenRequest, response: cmd.WriteResponse) -> None:
    """Who has started for it, and where: it was starting there, and has checked in."""
    ask = asked.ask
    starts = ask.kind not in CONTROLS and ask.kind is not RequestKind.STOP_STANDBY
    if not response.started:
        if response.status == "SUCCEEDED" and starts:
            raise taken.broken(TRUE_WORDS, f"{response} doesn't say what has started")
        return
    checked_in = {
        (both.processor_id, both.was.incarnation.host)
        for both in taken.both
        if both.was is not None and both.was.incarnation and both.was.phase is Phase.STARTING
    }
    said = response.started, response.host
    if not starts or response.started != asked.subject or said not in checked_in:
        raise taken.broken(TRUE_WORDS, f"{response}: started were {checked_in}")
    led = ask.kind is not RequestKind.FAIL_OVER or response.host == _left_to(
        taken, ask.processor_id
    )
    if led != (response.status == "SUCCEEDED"):
        raise taken.broken(TRUE_WORDS, f"{response}, and it is in a standby's place: {led}")


def _judge_why_not_started(taken: Taken, response: cmd.WriteResponse) -> None:
    """Standby constraints are blamed only where another is on the host that was reserved, or near."""
    if (
        response.status != "FAILED"
        or "does not meet standby constraints now" not in response.message
    ):
        return
    event = taken.event
    given = event.host if isinstance(event, ev.ResourceAllocated) else ""
    for both in taken.both:
        request = None if both.was is None else both.was.request
        if both.processor_id != response.processor_id or request is None or both.old is None:
            continue
        host = request.allocated_host or given
        found = {
            reason.rule
            for state, group in ((taken.before, both.old), (taken.after, both.group))
            if group is not None
            for reason in reasons(state, group, both.processor_id, host)
        }
        if not found & {"same-host", "same-fault-domain"}:
            raise taken.broken(TRUE_WORDS, f"{response}: in the way was {found or 'nothing'}")


def _left_to(taken: Taken, active_id: str) -> str | None:
    """The host that a standby has left to an active, by what led it as it checked in."""
    group = group_with(taken.before, active_id)
    return None if group is None else takes_place_on(group, active_id)


def _judge_arrival(taken: Taken, event: ev.RequestArrived, last: Last) -> None:
    """A request that was taken is answered; it is refused if a rule says so, and only then."""
    ask, said = event.ask, last.get(event.ask.uuid)
    new = ask.uuid in taken.after.uuids and ask.uuid not in taken.before.uuids
    if ask.deployment_id != taken.before.deployment_id or not new:
        return
    if said is None:
        raise taken.broken(TRUE_WORDS, f"{ask.uuid} was taken, and isn't answered")
    words = refusal(taken, event)
    if (said.status == "BAD_REQUEST") != (words is not None):
        raise taken.broken(TRUE_WORDS, f"{ask.uuid} is {said.status}, to be refused for {words}")
    if words is not None and not all(word in said.message for word in words):
        raise taken.broken(TRUE_WORDS, f"{said.message!r} doesn't name {words}")
    if said.status == "SUCCEEDED" and ask.kind in _WORDS:
        _judge_given_up(taken, said, last.get(ask.refers_to), _WORDS[ask.kind])


def _judge_given_up(
    taken: Taken, said: cmd.WriteResponse, told: cmd.WriteResponse | None, word: str
) -> None:
    """Both requests are told by which word the one was given up."""
    if told is None or any(
        (other in response.message) != (other == word)
        for response in (said, told)
        for other in _WORDS.values()
    ):
        raise taken.broken(TRUE_WORDS, f"{said} and {told}: it was {word}")


def _judge_answered(
    chronicle: Chronicle, taken: Taken, old: Group | None, new: Group | None, last: Last
) -> None:
    """The action's last response is what the state says; one that is over has its outcome."""
    action = None if new is None else new.action
    before = None if old is None else old.action
    if before is not None and action is not None and before.ask.uuid != action.ask.uuid:
        _judge_stopped(taken, before, None, last)
        before = None
    if before is not None or action is not None:
        _judge_stopped(taken, before, action, last)
    if action is not None:
        said = last.get(action.ask.uuid)
        if said is not None and (said.status, said.message, said.timestamp_ms) != (
            "FAILED" if isinstance(action, Fallback) else "IN_PROGRESS",
            action.message,
            action.response_ms,
        ):
            raise taken.broken(TRUE_WORDS, f"{said}, by the state {action}")
        if said is not None and said.status == "IN_PROGRESS" and action.stage is Stage.HELD:
            held = action.request.allocated_host if isinstance(action, Move) else None
            if said.host != held or said.host not in said.message:
                raise taken.broken(TRUE_WORDS, f"{said}, held is {held}")
        led = old is not None and old.failover is not None and not isinstance(action, Fallback)
        alone = led and new is not None and new.failover is None
        if alone and said is None and action.ask.kind is RequestKind.FAIL_OVER:
            raise taken.broken(TRUE_WORDS, f"{action} has no standby's place now, untold")
    known = [] if old is None else [*old.queue, *([old.action.ask] if old.action else ())]
    left = set[str]() if new is None else {ask.uuid for ask in new.queue}
    if action is not None:
        left.add(action.ask.uuid)
    for ask in known:
        asked = chronicle.asked.get(ask.uuid)
        if ask.uuid not in left and asked is not None and asked.terminal not in TERMINAL:
            raise taken.broken(TRUE_WORDS, f"{ask.uuid} is over, and nobody was told")


def _judge_stopped(taken: Taken, before: Action | None, action: Action | None, last: Last) -> None:
    """Whom it has told to stop: nobody is named who wasn't, and nobody is left out who was.

    `before` and `action` are of one request; None where that hasn't begun, or is over.
    """
    known = before or action
    assert known is not None
    said = last.get(known.ask.uuid)
    commanded = {stop.execution_id for stop in taken.every(cmd.StopContainer)}
    stopped = {
        both.processor_id
        for both in taken.both
        for of in (both.was, both.now)
        if of is not None
        and of.incarnation is not None
        and of.incarnation.execution_id in commanded
    }
    was = set[str]() if before is None else set(before.stopped)
    # A standby that is to be removed may have been stopping already, for another reason.
    may = was | stopped
    may |= {b.processor_id for b in taken.both if b.was and b.was.phase is Phase.STOPPING}
    must = was - _lives_on(taken)
    if action is not None and action.stage in _STOPPING:
        standby = action.stage is Stage.STOPPING_STANDBY
        must |= {displaced_by(action) if standby else subject_of(action)} & stopped
    stopped_sets = [] if action is None else [set(action.stopped)]
    stopped_sets += [] if said is None else [set(said.stopped)]
    for names in stopped_sets:
        if not must <= names <= may:
            raise taken.broken(
                TRUE_WORDS, f"{said or action} has stopped {must} at least, {may} at most"
            )


def _lives_on(taken: Taken) -> set[str]:
    """Those whose stop has failed by this step, or that are back with their host."""
    failed = isinstance(taken.event, ev.StopFailed)
    return {
        both.processor_id
        for both in taken.both
        if (both.was is not None and both.was.phase is Phase.STOPPING and failed)
        or (both.begun is not None and both.now is not None and both.now.phase is Phase.RUNNING)
    }
