"""The releases of Java that run this package's processes: broker, containers, Spark."""

from __future__ import annotations

OLDEST = 17
"""The oldest release for Kafka 4 and Spark 4."""

NEWEST = 22
"""Samza's kafka-clients 2.4.1 and Spark's Hadoop 3.4.1 call `Subject.getSubject`. It throws without
a security manager from 23 on, and always from 24 on (HADOOP-19212)."""

WANTED = f"a JDK of release {OLDEST} to {NEWEST}"
WHY_NOT_NEWER = (
    f"from {NEWEST + 1} on Subject.getSubject throws, which the clients of Kafka and Hadoop call"
)


def is_fit(release: int) -> bool:
    """Return whether a feature release (17 for 17.0.15) will do."""
    return OLDEST <= release <= NEWEST
