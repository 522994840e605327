"""A Kafka client that is kept between calls, and replaced after one that brought no answer.

librdkafka since 2.10 lets go of brokers that an answer doesn't name. If an answer names none, as from a
broker that its controller has just fenced, a client can be left without any. It finds none again however
long it lives, whatever its settings (librdkafka's issue 5301). So a client that brought no answer isn't
asked a second time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

Client = TypeVar("Client")


@dataclass
class _Kept(Generic[Client]):
    client: Client
    users: int = 0


class KeptClient(Generic[Client]):
    """Made by `make` when it is first used, ended by `end`. Thread-safe, as its users must be."""

    def __init__(self, make: Callable[[], Client], end: Callable[[Client], object]) -> None:
        self._make = make
        self._end = end
        self._lock = threading.Lock()
        self._kept: _Kept[Client] | None = None

    @contextmanager
    def use(self) -> Generator[Client]:
        """The client, for one call; when that raises, the next one gets a new client.

        One that is given up is ended when nobody uses it any more. Raises what `make` does.
        """
        with self._lock:
            if self._kept is None:
                self._kept = _Kept(self._make())
            kept = self._kept
            kept.users += 1
        try:
            yield kept.client
        except BaseException:
            with self._lock:
                if self._kept is kept:
                    self._kept = None
            raise
        finally:
            with self._lock:
                kept.users -= 1
                is_over = kept.users == 0 and self._kept is not kept
            if is_over:
                self._end(kept.client)

    def close(self) -> None:
        """Ends the client, once nobody uses it; the next `use` makes a new one."""
        with self._lock:
            kept, self._kept = self._kept, None
            is_over = kept is not None and kept.users == 0
        if kept is not None and is_over:
            self._end(kept.client)
