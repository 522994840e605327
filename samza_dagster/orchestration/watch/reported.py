"""What `auto_failover` said and did, as observations of `placement_history` that outlive its cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

import dagster as dg

from samza_dagster.orchestration.history.names import KEY
from samza_dagster.orchestration.tags import EVENT
from samza_dagster.orchestration.watch.cases import reported_as
from samza_dagster.orchestration.watch.memory import Acted, Memory, Suspect
from samza_dagster.orchestration.watch.outcomes import outcome_of
from samza_dagster.orchestration.watch.policy import Decision, FailoverVerdict

DECIDED, RECOVERED, ACKNOWLEDGED = "auto-failover", "auto-failover-over", "acknowledged"
ONLY_FOR = "only_for"
REPORTED_AT, DONE_AT, WELL_AT = "told_at", "done_at", "well_at"
WORDS = {
    FailoverVerdict.ASK: "asked",
    FailoverVerdict.ADOPT: "was asked by a tick that was cut off",
    FailoverVerdict.ADVISE: "advised",
    FailoverVerdict.SHADOW: "would be asked",
    FailoverVerdict.WATCH: "watched",
    FailoverVerdict.HELD: "held back",
}


def decision_event(
    decision: Decision,
    *,
    job: str,
    host: str | None,
    now_ms: int,
    refused: str = "",
    key: dg.AssetKey = KEY,
) -> dg.AssetObservation:
    """What was decided, why, and what a person can do. `refused`: what the client said to it."""
    case = decision.case
    word = "refused" if refused else WORDS[decision.verdict]
    because = refused or decision.because
    return dg.AssetObservation(
        asset_key=key,
        description=f"{case.action} of {case.processor} {word}: {case.suspect.why}"
        + (f" ({because})" if because else ""),
        metadata={
            "event": event_id(decision, refused),
            "job": job,
            "signal": case.suspect.kind,
            "subject": case.suspect.subject,
            "suspect": case.suspect.key,
            "processor": case.processor,
            "container_group": f"{job}/{case.group}",
            "host": host or "-",
            "incarnation": case.incarnation or "-",
            "action": case.action,
            "verdict": "refused" if refused else decision.verdict.value,
            "why": case.suspect.why,
            "because": because or "-",
            "what_to_do": decision.command,
            "request": case.uuid,
            "bad_since": dg.MetadataValue.timestamp(case.suspect.since_ms / 1000),
            REPORTED_AT: dg.MetadataValue.timestamp(now_ms / 1000),
        },
        tags={EVENT: DECIDED},
    )


def event_id(decision: Decision, refused: str = "") -> str:
    """What a decision is reported as, once."""
    return reported_as(decision.case, "refused") if refused else decision.event


def recovered_event(
    suspect: Suspect, *, job: str, now_ms: int, key: dg.AssetKey = KEY
) -> dg.AssetObservation:
    """Something looks well again that had been confirmed bad; and what was seen to be done about it."""
    outcome, done = outcome_of(suspect), f": {suspect.became}" if suspect.became else ""
    return dg.AssetObservation(
        asset_key=key,
        description=f"{suspect.subject} looks well again: {suspect.kind} is over ({outcome}{done})",
        metadata={
            "event": recovered_id(suspect),
            "job": job,
            "signal": suspect.kind,
            "subject": suspect.subject,
            "suspect": suspect.key,
            "bad_since": dg.MetadataValue.timestamp(suspect.since_ms / 1000),
            REPORTED_AT: dg.MetadataValue.timestamp(now_ms / 1000),
            "outcome": outcome.value,
            "done": suspect.became,
            **_known({DONE_AT: suspect.became_ms, WELL_AT: suspect.well_ms}),
        },
        tags={EVENT: RECOVERED},
    )


def recovered_id(suspect: Suspect) -> str:
    """What its end is reported as, once."""
    return f"{suspect.key}/{suspect.since_ms}/over"


def _recoveries(said: Mapping[str, int]) -> dict[str, int]:
    """Key of a suspect → when its end was told last, in ms."""
    found: dict[str, int] = {}
    for ident, at_ms in said.items():
        if ident.endswith("/over"):
            key = ident.removesuffix("/over").rpartition("/")[0]
            found[key] = max(found.get(key, 0), at_ms)
    return found


def with_episodes(memory: Memory, said: Mapping[str, int]) -> Memory:
    """The same; each suspect knows when its end was told the time before.

    By what was told, not by a count: whoever lost a cursor or repeats a tick finds the same. What
    ended before of another kind counts too: the same request may help against both, and under
    Samza's AM, which tells no incarnations, it would count as told for good.
    """
    over = _recoveries(said)

    def after_ms(suspect: Suspect) -> int:
        others = (
            at_ms
            for key, at_ms in over.items()
            if key.split("|")[1:2] == [suspect.subject] and at_ms <= suspect.since_ms
        )
        return max(suspect.after_ms, over.get(suspect.key, 0), *others, 0)

    suspects = {key: replace(s, after_ms=after_ms(s)) for key, s in memory.suspects.items()}
    return replace(memory, suspects=suspects)


def with_reports(memory: Memory, events: Sequence[dg.AssetObservation], job: str) -> Memory:
    """The same as the events know it: with what was told and isn't over, without what is."""
    opened = _still_open(events, job)
    said = {**reports(events, job), **memory.reported}
    suspects = {
        key: replace(s, reported=s.reported or key in opened)
        for key, s in {**opened, **memory.suspects}.items()
        if recovered_id(s) not in said
    }
    return replace(memory, suspects=suspects)


def acknowledgement(
    job: str,
    group: str,
    *,
    at_ms: int,
    who: str,
    why: str,
    ticket: str = "",
    ident: str | None = None,
    key: dg.AssetKey = KEY,
    only_for: str = "",
    partition: str | None = None,
) -> dg.AssetObservation:
    """A person has looked at a group after a failover: the sensor may act on it again.

    It is about what the group's block is for when it is stored; `at_ms` is only shown. `ident`
    tells it from any other; None: a new one. `only_for`: value of tag `samza/job` of the one job
    that it counts for; empty, under the plain key: every job of that name and id.
    """
    return dg.AssetObservation(
        asset_key=key,
        description=f"acknowledged: {job}/{group}: {why}",
        metadata={
            "job": job,
            "container_group": f"{job}/{group}",
            "group": group,
            "acknowledgement": ident or str(uuid4()),
            REPORTED_AT: dg.MetadataValue.timestamp(at_ms / 1000),
            "who": who or "-",
            "why": why,
            "ticket": ticket or "-",
            **({ONLY_FOR: only_for} if only_for else {}),
        },
        tags={EVENT: ACKNOWLEDGED},
        partition=partition,
    )


def acknowledged(events: Sequence[dg.AssetObservation], job: str) -> dict[str, str]:
    """Group → its last acknowledgement, by the order in which they were stored."""
    found: dict[str, str] = {}
    for event in _of(events, ACKNOWLEDGED, job):
        found.setdefault(text(event, "group"), _acknowledgement(event))
    return found


def reports(events: Sequence[dg.AssetObservation], job: str) -> dict[str, int]:
    """Id of what was reported → when."""
    return {
        text(event, "event"): time_ms(event.metadata, REPORTED_AT)
        for kind in (DECIDED, RECOVERED)
        for event in _of(events, kind, job)
    }


def _still_open(events: Sequence[dg.AssetObservation], job: str) -> dict[str, Suspect]:
    """What was told to be bad and not told to be over, by its key; nothing of it is confirmed."""
    over: set[str] = set()
    found: dict[str, Suspect] = {}
    for event in events:
        key = text(event, "suspect")
        if not key or text(event, "job") != job:
            continue
        if event.tags.get(EVENT) == RECOVERED:
            over.add(key)
        elif event.tags.get(EVENT) == DECIDED and key not in over:
            found[key] = Suspect(
                kind=text(event, "signal"),
                subject=text(event, "subject"),
                members=((text(event, "processor"), _incarnation(event)),),
                since_ms=time_ms(event.metadata, "bad_since"),
                why=text(event, "why"),
                reported=True,
            )
    return found


def restored(events: Sequence[dg.AssetObservation], job: str) -> Memory:
    """The memory of a sensor that lost its cursor: what it did and said."""
    acted: dict[str, Acted] = {}
    acks: dict[str, str] = {}
    for event in reversed(events):
        kind = event.tags.get(EVENT)
        if text(event, "job") != job:
            continue
        if kind == ACKNOWLEDGED:
            acks[text(event, "group")] = _acknowledgement(event)
        elif kind == DECIDED and text(event, "verdict") in (
            FailoverVerdict.ASK.value,
            FailoverVerdict.ADOPT.value,
        ):
            processor, uuid = text(event, "processor"), text(event, "request")
            group = text(event, "container_group").removeprefix(f"{job}/")
            at_ms = time_ms(event.metadata, REPORTED_AT)
            acted[uuid] = Acted(uuid, group, processor, at_ms, acks.get(group, ""))
    return Memory(
        job,
        acted=tuple(acted.values()),
        reported=reports(events, job),
        acks=acknowledged(events, job),
    ).bounded()


def _of(events: Sequence[dg.AssetObservation], kind: str, job: str) -> list[dg.AssetObservation]:
    return [e for e in events if e.tags.get(EVENT) == kind and text(e, "job") == job]


def is_for_every_one(event: dg.AssetObservation) -> bool:
    """An acknowledgement for every job of that name and id."""
    return event.tags.get(EVENT) == ACKNOWLEDGED and not text(event, ONLY_FOR)


def _acknowledgement(event: dg.AssetObservation) -> str:
    return text(event, "acknowledgement") or str(time_ms(event.metadata, REPORTED_AT))


def _incarnation(event: dg.AssetObservation) -> str:
    reported_as_none = text(event, "incarnation") == "-"
    return "" if reported_as_none else text(event, "incarnation")


def text(event: dg.AssetObservation, name: str) -> str:
    """A value of an event's metadata; empty: it has none of that name."""
    value = event.metadata.get(name)
    return str(value.value) if value is not None else ""


def time_ms(metadata: Mapping[str, dg.MetadataValue], name: str) -> int:
    """A time that an event or an evaluation tells, in ms since the epoch; 0: it tells none."""
    value = metadata.get(name)
    return round(value.value * 1000) if isinstance(value, dg.TimestampMetadataValue) else 0


def _known(times_ms: Mapping[str, int]) -> dict[str, dg.MetadataValue]:
    return {name: dg.MetadataValue.timestamp(ms / 1000) for name, ms in times_ms.items() if ms}
