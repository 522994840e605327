"""What the suspects are about: one case for each request that might help. Pure.

A request's UUID is derived from the job, the action, the processor, its incarnation and the
last acknowledgement of its group: whoever decides the same again, after a lost cursor or a
tick that was killed, asks nothing new.
"""

from __future__ import annotations

import uuid as uuid_module
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from samza_dagster.orchestration.watch.memory import OF_NO_CONTAINER, Suspect, urgency
from samza_dagster.orchestration.watch.observation import Observation
from samza_dagster.orchestration.watch.remedies import NOTHING, Remedies

NAMESPACE = uuid_module.UUID("0b9d3a58-3f8e-5c0c-9a7e-5d0f6f2f3c41")
MOST_JUDGED = 150
"""Cases at a look: one of each suspect at least, and with all that take turns fewer than are
remembered as told."""


@dataclass(frozen=True, slots=True)
class Case:
    """A confirmed suspect's processor, and what would help it. `uuid` is the request's.

    `ack` is the last acknowledgement of its `group`.
    """

    uuid: str
    suspect: Suspect
    processor: str
    group: str
    incarnation: str
    action: str
    ack: str = ""


def reported_as(case: Case, *words: str) -> str:
    """What is reported of a case, once for each time that its trouble comes."""
    again = (f"after-{case.suspect.after_ms}",) if case.suspect.after_ms else ()
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
    remedies: Remedies,
    group_of: Callable[[str], str],
    observation: Observation | None = None,
    least_looks: int = 0,
) -> tuple[Case, ...]:
    """What the suspects are about, one case a request, the most urgent first.

    With an `observation` only processors that run there as that incarnation. `least_looks`: suspects
    that looked bad less often are left out; 0: those that aren't confirmed.
    """
    found: dict[str, Case] = {}
    for case in _each(job, suspects, acknowledged, remedies, group_of, observation, least_looks):
        found.setdefault(case.uuid, case)
    return tuple(found.values())


def shared_out(found: Sequence[Case]) -> tuple[Case, ...]:
    """At most `MOST_JUDGED`, in their order: a suspect's second where each other has its first."""
    nth: Counter[str] = Counter()
    turns: list[tuple[int, int]] = []
    for place, case in enumerate(found):
        turns.append((nth[case.suspect.key], place))
        nth[case.suspect.key] += 1
    return tuple(found[place] for place in sorted(at for _, at in sorted(turns)[:MOST_JUDGED]))


def suspects_about(
    job: str,
    suspects: Mapping[str, Suspect],
    acknowledged: Mapping[str, str],
    uuids: Collection[str],
    *,
    remedies: Remedies,
    group_of: Callable[[str], str],
) -> frozenset[str]:
    """Keys of the confirmed suspects that one of these requests is for."""
    each = _each(job, suspects, acknowledged, remedies, group_of, None, 0)
    return frozenset(case.suspect.key for case in each if case.uuid in uuids)


def _each(
    job: str,
    suspects: Mapping[str, Suspect],
    acknowledged: Mapping[str, str],
    remedies: Remedies,
    group_of: Callable[[str], str],
    observation: Observation | None,
    least_looks: int,
) -> Iterator[Case]:
    """Of each suspect its cases: two suspects may be about one request."""
    for suspect in sorted(suspects.values(), key=urgency):
        if not (suspect.confirmed or (least_looks and suspect.bad >= least_looks)):
            continue
        for processor, incarnation in suspect.members:
            seen = observation.by_id.get(processor) if observation is not None else None
            judged = observation is not None and suspect.kind not in OF_NO_CONTAINER
            if judged and (seen is None or seen.incarnation != incarnation):
                continue
            group = group_of(processor)
            active = seen.active if seen is not None else group == processor
            action = remedies.action(suspect.kind, active=active)
            ack = acknowledged.get(group, "")
            what = action if action != NOTHING else suspect.kind
            uuid = request_uuid(job, what, processor, incarnation, ack)
            yield Case(uuid, suspect, processor, group, incarnation, action, ack)
