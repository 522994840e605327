"""The product's client in a process that may die, or lose its broker, at any of its calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from samza_dagster.client import PlacementClient


class Killed(Exception):
    """The run's worker is gone: from then on nothing that it asks gets anywhere."""


@dataclass
class Calls:
    """What workers have called, and the call at which one is cut off.

    `kill_at` is its number among all, `kill_on` its name and its number among those of that name;
    `kill_after`: it gets through before its caller dies. `breaks` has what others raise, by number. `before`
    is told each call and what it was given, and may raise.
    """

    count: int = 0
    of_name: Counter[str] = field(default_factory=Counter[str])
    kill_at: int | None = None
    kill_on: tuple[str, int] | None = None
    kill_after: bool = False
    breaks: dict[int, BaseException] = field(default_factory=dict[int, BaseException])
    before: Callable[[str, tuple[Any, ...]], None] = lambda _name, _given: None


class Worker:
    """Calls the client, while it lives."""

    def __init__(self, client: PlacementClient, calls: Calls) -> None:
        self._client, self._calls, self._killed = client, calls, False

    @classmethod
    def client(cls, client: PlacementClient, calls: Calls) -> PlacementClient:
        """As the product sees it."""
        return cast("PlacementClient", cls(client, calls))

    def close(self) -> None:
        self._client.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *given, **named: self._call(name, *given, **named)

    def _call(self, name: str, *given: Any, **named: Any) -> Any:
        calls = self._calls
        if self._killed:
            raise Killed
        calls.count += 1
        calls.of_name[name] += 1
        broken = calls.breaks.pop(calls.count, None)
        if broken is not None:
            raise broken
        self._killed = calls.count == calls.kill_at or (name, calls.of_name[name]) == calls.kill_on
        if self._killed and not calls.kill_after:
            raise Killed
        try:
            calls.before(name, given)
            done = getattr(self._client, name)(*given, **named)
        except Killed:
            self._killed = True
            raise
        if self._killed:
            raise Killed
        return done
