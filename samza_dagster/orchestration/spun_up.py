"""Run tags that say which standbys a run starts for its own move, set before it asks."""

from __future__ import annotations

import re

import dagster as dg

from samza_dagster.placement import texts

SPINS_UP = "samza/spins-up"
SPUN_UP = "samza/spin-up-requests"
YES = "yes"
_STARTED = re.compile(re.escape(texts.standby_started("@", "@")).replace("@", r"(\S+)"))


def note_spin_up(context: dg.OpExecutionContext, uuid: str) -> None:
    """Tags the run with a request for a standby; a run that is killed leaves it findable."""
    run = context.instance.get_run_by_id(context.run.run_id)
    tags = run.tags if run is not None else context.run.tags
    known = [one for one in tags.get(SPUN_UP, "").split(",") if one]
    if uuid not in known:
        noted = {SPINS_UP: YES, SPUN_UP: ",".join([*known, uuid])}
        context.instance.add_run_tags(context.run.run_id, noted)


def started_standby(message: str) -> str | None:
    """The standby that a response says was started; None for any other response."""
    found = _STARTED.fullmatch(message)
    return found[1] if found is not None else None


def host_of_started(message: str) -> str | None:
    """The host that it was started on."""
    found = _STARTED.fullmatch(message)
    return found[2] if found is not None else None
