"""What the suspects are about: one case for each request that might help. Pure.

A request's UUID is derived from the job, the action, the processor, its incarnation and the
last acknowledgement of its group: whoever decides the same again, after a lost cursor or a
tick that was killed, asks nothing new.
"""

from __future__ import annotations

import uuid as uuid_module
from collections.abc import Mapping
from dataclasses import dataclass

from samza_dagster.model.naming import group_of
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.orchestration.failover.memory import (
    COORDINATOR_GONE,
    HOST_SICK,
    Suspect,
    urgency,
)
from samza_dagster.orchestration.failover.sight import ContainerSeen, Sight
from samza_dagster.orchestration.failover.signals import FALLING_BEHIND, SILENT, STANDBY_STANDS

NAMESPACE = uuid_module.UUID("0b9d3a58-3f8e-5c0c-9a7e-5d0f6f2f3c41")
FAIL_OVER = RequestKind.FAIL_OVER.value
RESTART = "restart"
NOTHING = "nothing"
MOST_IN_A_LOOK = 20


@dataclass(frozen=True, slots=True)
class Case:
    """A confirmed suspect's processor, and what would help it. `uuid` is the request's.

    `suspect` is the key of the suspect, `after_ms` when its end was told the time before, `ack`
    the group's last acknowledgement.
    """

    uuid: str
    kind: str
    subject: str
    processor: str
    incarnation: str
    action: str
    since_ms: int
    why: str
    suspect: str = ""
    after_ms: int = 0
    ack: str = ""


def told_as(case: Case, *words: str) -> str:
    """What is reported of a case, once for each time that its trouble comes."""
    again = (f"after-{case.after_ms}",) if case.after_ms else ()
    return "/".join((case.uuid, *words, *again))


def request_uuid(job: str, action: str, processor: str, incarnation: str, acknowledged: str) -> str:
    """The request of one failure: the same whoever derives it, and however often.

    `acknowledged` is the last acknowledgement of its group, empty: there was none.
    """
    text = f"{job}/{action}/{processor}/{incarnation}/{acknowledged or 0}"
    return str(uuid_module.uuid5(NAMESPACE, text))


def cases(
    job: str,
    suspects: Mapping[str, Suspect],
    acknowledged: Mapping[str, str],
    *,
    sight: Sight | None = None,
    least_looks: int = 0,
) -> tuple[Case, ...]:
    """What the suspects are about, one case a request; at most `MOST_IN_A_LOOK`.

    With a `sight` only processors that run there as that incarnation. `least_looks`: suspects
    that looked bad less often are left out; 0: those that aren't confirmed.
    """
    now = {c.processor_id: c for c in (sight.containers if sight is not None else ())}
    found: dict[str, Case] = {}
    for suspect in sorted(suspects.values(), key=urgency):
        if not (suspect.confirmed or (least_looks and len(suspect.bad_ms) >= least_looks)):
            continue
        for processor, incarnation in suspect.members:
            seen = now.get(processor)
            judged = sight is not None and suspect.kind != COORDINATOR_GONE
            if judged and (seen is None or seen.incarnation != incarnation):
                continue
            action = action_for(suspect.kind, seen, processor)
            ack = acknowledged.get(group_of(processor), "")
            what = action if action != NOTHING else suspect.kind
            uuid = request_uuid(job, what, processor, incarnation, ack)
            found.setdefault(
                uuid,
                Case(
                    uuid=uuid,
                    kind=suspect.kind,
                    subject=suspect.subject,
                    processor=processor,
                    incarnation=incarnation,
                    action=action,
                    since_ms=suspect.since_ms,
                    why=suspect.why,
                    suspect=suspect.key,
                    after_ms=suspect.after_ms,
                    ack=ack,
                ),
            )
    return tuple(found.values())[:MOST_IN_A_LOOK]


def action_for(kind: str, seen: ContainerSeen | None, processor: str) -> str:
    """What helps against a signal."""
    active = seen.active if seen is not None else group_of(processor) == processor
    if kind in (HOST_SICK, FALLING_BEHIND) or (kind == SILENT and active):
        return FAIL_OVER
    if kind in (STANDBY_STANDS, SILENT):
        return RESTART
    return NOTHING
