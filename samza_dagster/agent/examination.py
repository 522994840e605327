"""Compare one live incarnation with the kernel and its record.

The agent is the second killer: it acts where a warden is late, stopped or dead.
"""

from __future__ import annotations

import logging
import signal
from typing import NamedTuple, Optional

from samza_dagster.agent import procfs
from samza_dagster.agent.ending import HOW_WARDEN_GONE
from samza_dagster.agent.incarnation import (
    DEAD,
    FAILED,
    LAUNCHING,
    RUNNING,
    STOPPING,
    HostedIncarnation,
)

LOG = logging.getLogger("samza_dagster.agent")

# The warden is the first killer; the agent acts when it is this much too late.
WARDEN_MARGIN_S = 2.0
# A process that survives SIGKILL for this long hangs in the kernel: report it.
GIVE_UP_S = 10.0
LOOK_AGAIN_S = 0.2
# The cluster's engine starts a hold within this time, files that it fetches included.
WARDEN_WITHIN_S = 30.0

_NEVER_STARTED = "the agent ended before it had started a warden"
# A container that was forked and not recorded died with its parent.
_WARDEN_ENDED = "its warden ended before it had started the container"
_STOPPED = "stopped before it was started"
_NO_WARDEN = "no warden came within {:.0f} s: the cluster's engine started none, or it ended"
_WARDEN_KILLED = "its warden was killed before it had told of a container: {}"


class ProcessFinding(NamedTuple):
    """A new state, or for `stop_failed` a reason in the old one."""

    state: str
    why: str = ""
    exit_status: Optional[int] = None
    stop_failed: str = ""


def examine(
    found: HostedIncarnation, *, boot_id: str, lease_left_s: Optional[float], now: float
) -> Optional[ProcessFinding]:
    """Return what has changed, or None. `now` is monotonic.

    `lease_left_s` None is a lease that the agent doesn't know: its wardens may know one.

    Kills what should be dead and isn't; a later look finds its death.
    """
    if not found.read_processes():
        return _examine_launch(found, lease_left_s, now)
    assert found.warden is not None  # read together
    assert found.container is not None
    if found.warden.name.boot_id != boot_id:
        return _dead(found, "the host was started anew")
    # In this order: a dead warden wrote its end before it died, so the end is looked for after.
    warden_dead = found.warden.is_dead()
    container_dead = found.container.is_dead()
    if container_dead and found.read_end() is not None:
        return _dead(found, "")
    if found.state == LAUNCHING:
        return ProcessFinding(STOPPING if found.stop_asked else RUNNING)
    if warden_dead:
        return _take_over(found, container_dead, now)
    if container_dead:
        _hurry_warden(found, now)
        return None
    return _second_killer(found, lease_left_s, now)


def _examine_launch(
    found: HostedIncarnation, lease_left_s: Optional[float], now: float
) -> Optional[ProcessFinding]:
    # Its warden may write its record between two looks here, and then is taken next time.
    if found.warden is not None:
        ended = found.warden.is_dead()
        if not ended and found.read_end() is None:
            return _kill_launching(found, lease_left_s, now)
        if ended and not found.read_processes() and found.read_end() is None:
            why = _WARDEN_KILLED.format(found.killed_for) if found.killed_for else _WARDEN_ENDED
            try:
                found.bar(why)
            except OSError as error:  # it was the only one that could have run it
                LOG.warning("%s: its end can't be recorded: %s", found.execution_id, error)
                return ProcessFinding(FAILED, why)
    elif found.read_end() is None:
        never = _NEVER_STARTED if found.hold is None else _unawaited(found, lease_left_s, now)
        if never is None or not found.bar(never):
            # Started by an agent before this one, and about to write its record, or hung.
            claimant = found.take_claimant()
            if claimant is not None and found.stop_asked:
                claimant.send(signal.SIGTERM)
    end = found.read_end()
    if end is None or found.read_processes():
        return None
    return ProcessFinding(FAILED, str(end.get("why", "")))


def _unawaited(
    found: HostedIncarnation, lease_left_s: Optional[float], now: float
) -> Optional[str]:
    """Return why its hold is late or not needed any more; None while it may become its warden."""
    if found.warden_by is None:
        found.warden_by = now + WARDEN_WITHIN_S
    if found.stop_asked:
        return _STOPPED
    late = _NO_WARDEN.format(WARDEN_WITHIN_S) if now >= found.warden_by else None
    return _overdue(found, lease_left_s, now) or late


def _kill_launching(
    found: HostedIncarnation, lease_left_s: Optional[float], now: float
) -> Optional[ProcessFinding]:
    """Kill a warden that has recorded no container; a container that it forked dies with it."""
    assert found.warden is not None
    why = _overdue(found, lease_left_s, now)
    if why is not None:
        if found.killed_for is None:
            found.killed_for = why
            LOG.warning("%s: killing its warden: %s", found.execution_id, why)
        found.warden.send(signal.SIGKILL)
        found.kill_at = now + LOOK_AGAIN_S
    return _hangs(found, found.warden.name.pid, now)


def _dead(found: HostedIncarnation, why: str) -> ProcessFinding:
    end = found.read_end() or {}
    status = end.get("status")
    return ProcessFinding(
        DEAD,
        str(end.get("why") or end.get("how") or why),
        exit_status=status if isinstance(status, int) else None,
    )


def _take_over(
    found: HostedIncarnation, container_dead: bool, now: float
) -> Optional[ProcessFinding]:
    """Kill what a dead warden left, then write the end that it didn't write."""
    assert found.warden is not None
    assert found.container is not None
    container, session = found.container.name, found.warden.name
    if procfs.group_of(container, session) or not container_dead:
        procfs.kill_group(container, session)
        found.kill_at = now + LOOK_AGAIN_S
        return None
    why = "its warden was killed"
    try:
        found.write_end(HOW_WARDEN_GONE, why)
    except OSError as error:  # it is dead, as the next agent will see too
        LOG.warning("%s: its end can't be recorded: %s", found.execution_id, error)
    return _dead(found, why)


def _hurry_warden(found: HostedIncarnation, now: float) -> None:
    """Give the warden of a dead container a moment to write the end, then kill it."""
    assert found.warden is not None
    if found.bury_by is None:
        found.bury_by = now + WARDEN_MARGIN_S
    elif found.bury_by <= now:
        LOG.warning("%s: its warden hangs, killing it", found.execution_id)
        found.warden.send(signal.SIGKILL)


def _second_killer(
    found: HostedIncarnation, lease_left_s: Optional[float], now: float
) -> Optional[ProcessFinding]:
    assert found.warden is not None
    assert found.container is not None
    why = _overdue(found, lease_left_s, now)
    if why is not None:
        if found.killed_for is None:  # once: one that hangs is killed at every look
            found.killed_for = why
            LOG.warning("%s: killing its group: %s", found.execution_id, why)
        procfs.kill_group(found.container.name, found.warden.name)
        found.kill_at = now + LOOK_AGAIN_S
    return _hangs(found, found.container.name.pid, now)


def _overdue(found: HostedIncarnation, lease_left_s: Optional[float], now: float) -> Optional[str]:
    """Return why the agent kills what its warden should have ended; None while that has time."""
    if lease_left_s is not None and lease_left_s <= -WARDEN_MARGIN_S:
        return "the lease has ended"
    if found.kill_at is not None and found.kill_at <= now:
        return "its warden didn't in time"
    return None


def _hangs(found: HostedIncarnation, pid: int, now: float) -> Optional[ProcessFinding]:
    hangs = found.give_up_at is not None and found.give_up_at <= now
    if hangs and found.stop_asked and not found.stop_failed:
        text = "pid {} lives on {:.0f} s after SIGKILL".format(pid, GIVE_UP_S)
        return ProcessFinding(found.state, stop_failed=text)
    return None
