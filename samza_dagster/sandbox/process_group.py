"""The process group that one of our processes founded, ended as a whole.

`spawn` and `spawn_with_default_signals` start a process in a session of its own, so its
id is also that of its group and session. Its children may outlive it, in the same group.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

from samza_dagster.agent import procfs
from samza_dagster.errors import ActionFailed
from samza_dagster.sandbox.process import ProcessRecord

_POLL_S = 0.05
_KILL_S = 5.0


def is_group_alive(leader: ProcessRecord) -> bool:
    """Whether any process of the group is left, zombies not counted."""
    return leader.is_alive or bool(procfs.group_of(_name(leader), _name(leader)))


def stop_groups(leaders: Sequence[ProcessRecord], *, timeout_s: float) -> None:
    """Ends groups in reverse order of their start; kills what is left after `timeout_s`.

    Asks the leaders alone: each ends its own children in order. Raises `ActionFailed`
    when a group survives even SIGKILL.
    """
    deadline = time.monotonic() + timeout_s
    for leader in reversed(leaders):
        leader.send(signal.SIGTERM)
    late = [leader for leader in leaders if not _wait_gone(leader, deadline)]
    for leader in late:
        procfs.kill_group(_name(leader), _name(leader))
    left = [leader for leader in late if not _wait_gone(leader, time.monotonic() + _KILL_S)]
    if left:
        raise ActionFailed(
            "end process groups",
            seen=", ".join(f"{each.role}: group {each.pid} is still there" for each in left),
        )


def _wait_gone(leader: ProcessRecord, deadline: float) -> bool:
    while is_group_alive(leader):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _name(leader: ProcessRecord) -> procfs.ProcessName:
    return procfs.ProcessName(leader.pid, leader.start_ticks, leader.boot)
