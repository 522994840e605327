"""Reports unreadable parts among readable ones, and leaves them out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from samza_dagster.errors import InvalidInput

_Read = TypeVar("_Read")
_log = logging.getLogger(__name__)


class Unreadable:
    """The unreadable parts of one reading, by name; each is logged once while it lasts."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}
        self._before: dict[str, str] = {}

    def begin(self) -> None:
        """Begin another reading."""
        self._before, self.seen = self.seen, {}

    def note(self, name: str, why: object) -> None:
        """Note that a part can't be read."""
        self.seen[name] = str(why)
        if self._before.get(name) != str(why):
            _log.warning("left out: %s", why)

    def unless(self, name: str, read: Callable[[], _Read | None]) -> _Read | None:
        """Return the result of `read`; None where it fails, which is noted."""
        try:
            return read()
        except InvalidInput as error:
            self.note(name, error)
            return None
