"""A rig per test: real agents, one LocalCluster at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract.agent.rig import Rig, Waiting, rig
from tests.rig.pace import workers


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def waiting(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Waiting]:
    """`SCENARIOS` of the module mostly wait for time to pass: each in a thread and on a job of its own."""

    def run(scenario: Callable[[Rig], None], root: Path) -> None:
        with rig(root) as job:
            scenario(job)

    scenarios = request.module.SCENARIOS
    roots = {each: tmp_path_factory.mktemp(each.__name__) for each in scenarios}
    with ThreadPoolExecutor(workers(len(roots))) as pool:
        yield {each: pool.submit(run, each, root) for each, root in roots.items()}
