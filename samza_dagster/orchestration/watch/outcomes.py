"""What becomes of a trouble while it lasts, whoever does it: another place, another process. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum

from samza_dagster.lag import Heard
from samza_dagster.orchestration.watch.memory import (
    COORDINATOR_REPLACED,
    HOST_LOST,
    HOST_SICK,
    JOB_DEAD,
    OF_NO_CONTAINER,
    SILENT,
    Memory,
    Suspect,
)
from samza_dagster.orchestration.watch.observation import Observation
from samza_dagster.orchestration.watch.silence import newest_report_ms

_SILENCES = (SILENT, HOST_SICK, HOST_LOST, JOB_DEAD)


class Resolution(StrEnum):
    """How a trouble ended, as far as that was seen."""

    OPEN = "open"
    DONE_BY_COORDINATOR = "done by the coordinator"
    DONE_ON_REQUEST = "done on request"
    NOT_NEEDED = "nothing was needed"
    UNKNOWN = "unknown"


def outcome_of(suspect: Suspect) -> Resolution:
    """Of one that is over. Unknown: how it was when it began, or whether it is the same process now."""
    if suspect.became:
        return Resolution.DONE_ON_REQUEST if suspect.asked else Resolution.DONE_BY_COORDINATOR
    return Resolution.NOT_NEEDED if suspect.same and not suspect.asked else Resolution.UNKNOWN


def as_it_is(suspect: Suspect, observation: Observation) -> tuple[str, str, str]:
    """Host, process and deployment of what a trouble is about; empty: not known.

    A process by a checksum; of a host all that it is about there, of a coordinator its epoch.
    """
    if suspect.kind in OF_NO_CONTAINER:
        epoch = (
            str(observation.leader.epoch)
            if observation.leader is not None
            else observation.deployment
        )
        return "", epoch, observation.deployment
    about = [c for p, _ in suspect.members if (c := observation.by_id.get(p)) is not None]
    hosts = sorted({c.host or "" for c in about})
    names = [c.incarnation or c.reporter for c in about]
    process = " ".join(f"{zlib.crc32(name.encode()):x}" for name in names) if all(names) else ""
    return ", ".join(hosts), process, observation.deployment


def with_news(suspect: Suspect, observation: Observation, now_ms: int) -> Suspect:
    """The same, with what is seen at this look to have been done about it."""
    if suspect.became:
        return suspect
    now = as_it_is(suspect, observation)
    became = suspect.why if suspect.kind == COORDINATOR_REPLACED else _became(suspect.was, now)
    groups = {observation.group_of(processor) for processor, _ in suspect.members}
    return replace(
        suspect,
        asked=suspect.asked or not groups.isdisjoint(observation.asked),
        became=became,
        became_ms=now_ms if became else 0,
        same=bool(now[1] and suspect.was[1]) and not became,
    )


def awaits_report(
    suspect: Suspect, observation: Observation, reports: Mapping[str, Heard], memory: Memory
) -> bool:
    """Whether it can't be over yet: what fell silent hasn't reported since, where nobody tells what runs.

    That it was started elsewhere is no sign that it works there.
    """
    if observation.can.tells_what_runs or suspect.kind not in _SILENCES:
        return False
    since_ms = max(memory.deployment_ms, *suspect.bad_ms, 0)
    if suspect.kind == JOB_DEAD:
        return not observation.can.shows_its_life and all(
            newest_report_ms(c, reports) <= since_ms for c in observation.containers
        )
    about = (c for p, _ in suspect.members if (c := observation.by_id.get(p)) is not None)
    return any(newest_report_ms(c, reports) <= since_ms for c in about)


def _became(was: tuple[str, str, str], now: tuple[str, str, str]) -> str:
    """What is there in place of what was, in words; empty: nothing, as far as is known."""
    (host, process, deployment), (now_host, now_process, now_deployment) = was, now
    if not deployment:
        return ""
    if now_deployment not in ("", deployment):
        return f"deployment {now_deployment} runs in place of {deployment}"
    if now_host not in ("", host):
        return f"on {now_host}, it was on {host or 'no host'}"
    if process and set(now_process.split()) - set(process.split()):
        return f"another process, on {now_host}" if now_host else f"epoch {now_process} leads"
    return ""
