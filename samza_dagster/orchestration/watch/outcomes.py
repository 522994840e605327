"""What becomes of a trouble while it lasts, whoever does it: another place, another process. Pure."""

from __future__ import annotations

import zlib
from dataclasses import replace
from enum import StrEnum

from samza_dagster.orchestration.watch.cursor import (
    COORDINATOR_REPLACED,
    HOST_LOST,
    HOST_SICK,
    JOB_DEAD,
    OF_NO_CONTAINER,
    SILENT,
    Suspect,
)
from samza_dagster.orchestration.watch.observation import Observation
from samza_dagster.orchestration.watch.signals import Look

_SILENCES = (SILENT, HOST_SICK, HOST_LOST, JOB_DEAD)


class Resolution(StrEnum):
    """How a trouble ended, as far as that was seen."""

    OPEN = "open"
    DONE_BY_COORDINATOR = "done by the coordinator"
    DONE_ON_REQUEST = "done on request"
    NOT_NEEDED = "nothing was needed"
    UNKNOWN = "unknown"


def outcome_of(suspect: Suspect) -> Resolution:
    """Return the outcome of a trouble that is over.

    It is unknown where it isn't known how it was at first, or whether it is the same process now.
    """
    if suspect.became:
        return Resolution.DONE_ON_REQUEST if suspect.asked else Resolution.DONE_BY_COORDINATOR
    return Resolution.NOT_NEEDED if suspect.same and not suspect.asked else Resolution.UNKNOWN


def as_it_is(suspect: Suspect, seen: Observation) -> tuple[str, str, str]:
    """Return host, process and deployment of what a trouble is about; empty: not known.

    A process by a checksum; of a host all that it is about there, of a coordinator its epoch.
    """
    if suspect.kind in OF_NO_CONTAINER:
        epoch = str(seen.leader.epoch) if seen.leader is not None else seen.deployment
        return "", epoch, seen.deployment
    about = [c for p, _ in suspect.members if (c := seen.by_id.get(p)) is not None]
    hosts = sorted({c.host or "" for c in about})
    names = [c.incarnation or c.reporter for c in about]
    process = " ".join(f"{zlib.crc32(name.encode()):x}" for name in names) if all(names) else ""
    return ", ".join(hosts), process, seen.deployment


def with_news(suspect: Suspect, seen: Observation, now_ms: int) -> Suspect:
    """Add what is seen at this look to have been done about it."""
    if suspect.became:
        return suspect
    now = as_it_is(suspect, seen)
    became = suspect.why if suspect.kind == COORDINATOR_REPLACED else _became(suspect.was, now)
    groups = {seen.group_of(processor) for processor, _ in suspect.members}
    return replace(
        suspect,
        asked=suspect.asked or not groups.isdisjoint(seen.asked),
        became=became,
        became_ms=now_ms if became else 0,
        same=bool(now[1] and suspect.was[1]) and not became,
    )


def awaits_report(suspect: Suspect, look: Look) -> bool:
    """Return whether it can't be over yet: what fell silent hasn't reported since.

    That it was started elsewhere is no sign that it works there, where nobody tells what runs.
    """
    seen = look.seen
    if seen.can.tells_what_runs or suspect.kind not in _SILENCES:
        return False
    since_ms = max(look.cursor.deployment_ms, suspect.since_ms)
    if suspect.kind == JOB_DEAD:
        reported = [look.newest_report_ms(c) > since_ms for c in seen.containers]
        return not seen.can.shows_its_life and not any(reported)
    about = (c for p, _ in suspect.members if (c := seen.by_id.get(p)) is not None)
    return any(look.newest_report_ms(c) <= since_ms for c in about)


def _became(was: tuple[str, str, str], now: tuple[str, str, str]) -> str:
    """Say what is there in place of what was; empty: nothing, as far as is known."""
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
