"""Metrics of a standalone processor and of its reading of the group, for Prometheus. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from samza_dagster.agent.metrics import Metric
from samza_dagster.model import TaskMode
from samza_dagster.standalone.group import GroupView
from samza_dagster.standalone.processor import ProcessorState

_PREFIX = "samza_dagster_processor_"


class Seen(NamedTuple):
    """A processor at one time, by its own clock.

    `group` is its newest reading; None where it wasn't registered then, or that is so old that its
    session may be over. It hasn't run what is agreed on for `behind_ms`. `registrations` is the
    highest number that ZooKeeper has given one, as far as it has seen: it never falls.
    `lost_sessions` are those since the process began.
    """

    state: ProcessorState
    group: GroupView | None
    now_ms: int
    behind_ms: int = 0
    lost_sessions: int = 0
    registrations: int = 0


def metrics_of(look: Seen, since_s: float) -> list[Metric]:
    """Return every family, also empty ones.

    Counters were 0 at `since_s`, in seconds of the epoch.
    """
    state, work = look.state, look.state.work

    def gauge(name: str, text: str, value: float | None) -> Metric:
        return Metric(_PREFIX + name, "gauge", text, [] if value is None else [("", value)])

    def of_group(name: str, text: str, value: Callable[[GroupView], int]) -> Metric:
        return gauge(name, text, None if look.group is None else value(look.group))

    actives = (each for each in work.running if each.mode is TaskMode.ACTIVE)
    at_work = sum(len(each.tasks) for each in actives if each.processor_id in work.at_work)
    silent_s = None if work.silent_ms is None else work.silent_ms / 1_000
    heard_s, behind_s = max(0, look.now_ms - state.heard_ms) / 1_000, look.behind_ms / 1_000
    losses = "sessions with ZooKeeper that were over while this process ran"
    return [
        gauge(
            "zookeeper_silence_seconds",
            "since that was asked which ZooKeeper answered last",
            heard_s,
        ),
        gauge("behind_seconds", "since it hasn't run what is agreed on, or 0", behind_s),
        gauge("active_tasks", "active tasks whose container has checked in here", at_work),
        gauge(
            "task_silence_seconds",
            "how long active tasks that stayed here were silent at the newest change",
            silent_s,
        ),
        of_group("leads", "1 for the leader, else 0", lambda _: int(state.counted is not None)),
        of_group("group_size", "processors that are registered", lambda g: len(g.members)),
        of_group("registrations", "one more whenever one registers", lambda _: look.registrations),
        of_group("agreed_version", "the newest version that all had joined", lambda g: g.agreed),
        of_group(
            "unagreed_versions",
            "versions made since then, which not all have joined",
            lambda g: max(0, g.version - g.agreed),
        ),
        of_group(
            "tasks_without_processor",
            "active tasks that the newest version assigns to no registered processor",
            lambda g: len(g.without_processor),
        ),
        of_group("duplicates", "1 while two have one id, or 0", lambda g: int(g.has_duplicates)),
        Metric(_PREFIX + "session_losses", "counter", losses, [("", look.lost_sessions)], since_s),
    ]
