"""The Python workers that Spark has on this machine."""

from __future__ import annotations

import sys

import pytest

from samza_dagster.snapshots import Workers

pytestmark = pytest.mark.spark


def test_a_worker_has_what_it_needs_and_looks_through_no_archive(workers: Workers) -> None:
    """Each task would read their directories anew, as Python does when it is told that modules may be new."""

    def found(_: int) -> tuple[bool, list[str]]:
        archives = [place for place in sys.path_importer_cache if place.endswith((".zip", ".jar"))]
        return "samza_dagster.snapshots.rows" in sys.modules, archives

    assert (
        workers.session.sparkContext.parallelize(range(2), 2).map(found).collect()
        == [(True, [])] * 2
    )
