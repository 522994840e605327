"""The records of the load, as pure functions of a seed: a plan always gives the same records.

A key is long random text, because the Joiner's own value is tiny: the state's size is in its
keys. A visit of a key sends all parts of one epoch, seconds apart. So at any time many keys wait
for a part, and a task that lost its state is detected. The visits go round over all keys. A key's
next epoch begins only after its last part was sent, or the Joiner would throw.

It must begin well after. A new epoch is a delete and a put in the Joiner's changelog, and a
process that is killed between the two leaves the key without state. If its successor reads the
last part of the last epoch again without the first, the next epoch finds parts missing: the
Joiner throws, at each start. So the rest of a round is at least as long as the time between two
parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from samza_dagster.errors import InvalidInput
from samza_dagster.sandbox.demo_job import PARTS, TASKS_PER_CONTAINER

KEY_BYTES = 1000
MIN_KEYS_PER_ACTIVE = 100
RATE = 60.0
"""Records a second; a higher rate took two slow cores completely."""
SPREAD_S = 12.0
"""Longer than a restarted container's repeated reads (a commit every 5 s, and its stop).
Otherwise it would read both parts again and lost state would not show."""
_PRINTABLE = bytes(33 + byte % 94 for byte in range(256))


class Part(NamedTuple):
    """A record to send: part `part` of `epoch` of the key with number `key`."""

    key: int
    epoch: int
    part: int

    @property
    def value(self) -> str:
        """Return the value in the form of Samza's Joiner."""
        return f"{self.epoch}-Partition {self.part}"


@dataclass(frozen=True)
class LoadPlan:
    """`keys` keys over `partitions` partitions; `rate` records a second when steady."""

    keys: int
    partitions: int
    rate: float = RATE
    seed: int = 1
    spread_s: float = SPREAD_S  # the time between the first and the last part of a key's epoch
    parts: int = PARTS

    def __post_init__(self) -> None:
        if self.keys < self.parts or self.partitions < 1 or self.rate <= 0 or self.spread_s < 0:
            raise InvalidInput(
                "a load",
                seen=f"{self.keys} keys, {self.partitions} partitions, rate {self.rate}, spread {self.spread_s} s",
                fix=f"at least {self.parts} keys, one partition, a rate above 0",
            )

    @classmethod
    def for_state(
        cls, state_mb: float, *, actives: int, rate: float = RATE, seed: int = 1
    ) -> LoadPlan:
        """Return the plan with `state_mb` MB of live keys per active (1 MB = 1000 keys)."""
        per_active = max(MIN_KEYS_PER_ACTIVE, round(state_mb * 1_000_000 / KEY_BYTES))
        return cls(per_active * actives, actives * TASKS_PER_CONTAINER, rate, seed)

    @property
    def lag(self) -> int:
        """Return the visits between two parts of one visit, and at least to the next epoch."""
        visits = round(self.spread_s * self.rate / self.parts / max(1, self.parts - 1))
        return max(1, min(visits, self.keys // self.parts))

    def partition_of(self, key: int) -> int:
        """Return the partition of a key, the same in every epoch."""
        return key % self.partitions

    def key_text(self, key: int) -> str:
        """Return `KEY_BYTES` characters: the number, then text that doesn't compress well."""
        noise = hashlib.shake_128(f"{self.seed}/{key}".encode()).digest(KEY_BYTES)
        return (f"{key:08d}." + noise.translate(_PRINTABLE).decode("ascii"))[:KEY_BYTES]

    def fill(self) -> Iterator[Part]:
        """Yield epoch 0 of every key, complete."""
        for key in range(self.keys):
            for part in range(self.parts):
                yield Part(key, 0, part)

    def steady(self, first_visit: int = 0) -> Iterator[tuple[Part, ...]]:
        """Yield without end the parts that each visit sends together; epochs from 1 on."""
        visit = first_visit
        while True:
            yield tuple(
                Part(begun % self.keys, 1 + begun // self.keys, part)
                for part in range(self.parts)
                if (begun := visit - part * self.lag) >= 0
            )
            visit += 1
