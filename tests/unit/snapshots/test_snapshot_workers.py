"""When Spark is started, and how work is shared among its workers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from samza_dagster.errors import Unreachable
from samza_dagster.snapshots import Workers

pytestmark = pytest.mark.unit


def no_spark() -> Any:
    raise Unreachable("a session", seen="this test starts none")


def test_one_part_takes_no_spark() -> None:
    """Nor does none; two do."""
    workers = Workers(no_spark)
    assert workers.each(str, [1]) == ["1"]
    assert workers.each(str, []) == []
    assert workers.started_s == 0
    with pytest.raises(Unreachable, match="starts none"):
        workers.each(str, [1, 2])
    workers.close()


def test_little_work_is_one_part_whatever_workers_there_are() -> None:
    """So that Spark isn't started to be asked how many it has."""
    assert Workers(no_spark).share(20, 20) == 20


def test_each_worker_gets_as_much() -> None:
    """A little more, where it can't be divided, and never less than is worth a worker."""
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=4))
    workers = Workers(lambda: session)
    assert workers.share(101, 20) == 26
    assert workers.share(50, 20) == 20
