"""Consumers that are reused when the topics of many jobs are read one after the other.

A consumer has its own threads and connections. Reading the topics of hundreds of jobs within
seconds would create a thousand of them. Within `shared_readers` a closed consumer is kept for the
next reading with the same settings. One that brought no answer is ended
(`kept_client`).
"""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

_LEADS_S = 1.0
_lock = threading.Lock()
_users = 0
_idle: defaultdict[tuple[tuple[str, str], ...], list[_SharedReader]] = defaultdict(list)


@contextmanager
def shared_readers() -> Generator[None]:
    """All readers of this process are shared, in whatever thread, until the last of these ends."""
    global _users  # noqa: PLW0603 - of the process, as its connections are
    with _lock:
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            over = [] if _users else [reader for kept in _idle.values() for reader in kept]
            if over:
                _idle.clear()
        for reader in over:
            reader.end()


def reader(settings: Mapping[str, Any], make: Callable[[dict[str, Any]], Consumer]) -> Consumer:
    """Return a consumer with these settings: one that was given back, or a new one from `make`.

    Its `error_cb` is that of its present user.
    """
    note: Callable[[KafkaError], None] = settings["error_cb"]
    plain = tuple(sorted((name, str(it)) for name, it in settings.items() if name != "error_cb"))
    with _lock:
        if not _users:
            return make({**settings})
        kept = _idle[plain]
        found = kept.pop() if kept else None
    if found is None:
        found = _SharedReader(plain)
        found.consumer = make({**settings, "error_cb": found.note_error})
    found.note = note
    return cast("Consumer", found)


class _SharedReader:
    """A consumer that is given back by `close`; in all else it is one."""

    consumer: Consumer
    note: Callable[[KafkaError], None]

    def __init__(self, settings: tuple[tuple[str, str], ...]) -> None:
        self._settings = settings
        self._has_answered = False
        self._was_lent = False

    def note_error(self, error: KafkaError) -> None:
        """Hand an error of the connection to the consumer's present user."""
        self.note(error)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        ask = getattr(self.consumer, name)

        def asked(*given: Any, **named: Any) -> Any:
            self._has_answered = False
            answer = ask(*given, **named)
            self._has_answered = answer is not None
            return answer

        return asked

    def assign(self, places: list[TopicPartition]) -> None:
        """Assign places as a consumer does; a consumer of other leaders would find these after a second."""
        if self._was_lent:
            with contextlib.suppress(KafkaException):  # the reading says it with a deadline
                self.consumer.list_topics(places[0].topic, timeout=_LEADS_S)
        self.consumer.assign(places)

    def close(self) -> None:
        """Gives it back to the next reading, unless it brought no answer or nobody shares any more."""
        if self._has_answered:
            self.consumer.unassign()
            self._has_answered, self._was_lent = False, True
            with _lock:
                if _users:
                    _idle[self._settings].append(self)
                    return
        self.end()

    def end(self) -> None:
        """Closes the consumer."""
        self.consumer.close()
