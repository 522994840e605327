"""Who steered a bounce, when and why: kept as a tag of its run, carried on by who resumes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from samza_dagster.errors import InvalidInput
from samza_dagster.orchestration.config import LONGEST_REASON, LONGEST_WHO
from samza_dagster.orchestration.show.pictures import clock
from samza_dagster.orchestration.tags import MOST_TAG_BYTES, STEERED, TICKET, WHO, WHY

_WHY_KEPT = 300


@dataclass(frozen=True)
class By:
    """Who asks for it, why, and under which ticket; empty: not said. Raises `InvalidInput` for a text that is too long."""

    who: str = ""
    why: str = ""
    ticket: str = ""

    def __post_init__(self) -> None:
        """Checks the lengths that the jobs' forms have."""
        longest = {"who": LONGEST_WHO, "why": LONGEST_REASON, "ticket": LONGEST_WHO}
        for name, most in longest.items():
            said = getattr(self, name)
            if len(said) > most:
                raise InvalidInput(name, seen=f"{len(said):,} characters", fix=f"at most {most}")


@dataclass(frozen=True)
class Steering:
    """One order to a bounce, at a time in ms since the epoch."""

    at_ms: int
    action: str
    who: str = ""
    why: str = ""
    ticket: str = ""

    def __str__(self) -> str:
        """For a person."""
        who = f" by {self.who}" if self.who else ""
        why = f": {self.why}" if self.why else ""
        return f"{self.action} at {clock(self.at_ms)} UTC{who}{why}{f' ({self.ticket})' if self.ticket else ''}"


def steerings(tags: Mapping[str, str]) -> list[Steering]:
    """All that a run's tags tell of, oldest first; none of a tag that somebody has changed by hand."""
    try:
        found: list[dict[str, Any]] = json.loads(tags.get(STEERED, "[]"))
        return [Steering(**one) for one in found]
    except (ValueError, TypeError):
        return []


def noted(tags: Mapping[str, str], action: str, by: By, at_ms: int) -> dict[str, str]:
    """The tag with one more; the oldest are left out of one that would be too large."""
    new = Steering(at_ms, action, by.who, by.why[:_WHY_KEPT], by.ticket)
    orders = [asdict(one) for one in (*steerings(tags), new)]
    text = json.dumps(orders, ensure_ascii=False)
    while len(text.encode()) > MOST_TAG_BYTES and len(orders) > 1:
        orders.pop(0)
        text = json.dumps(orders, ensure_ascii=False)
    return {STEERED: text}


def resumed_by(tags: Mapping[str, str]) -> Steering | None:
    """The newest order to resume; None when it is none, or told nothing of whoever gave it."""
    newest = next(iter(reversed(steerings(tags))), None)
    return newest if newest is not None and newest.action == "resume" else None


def tags_of(one: Steering) -> dict[str, str]:
    """Who, why and ticket, as far as they were said."""
    return {
        tag: said for tag, said in ((WHO, one.who), (WHY, one.why), (TICKET, one.ticket)) if said
    }
