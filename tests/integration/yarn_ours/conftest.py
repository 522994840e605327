"""One sandbox with our coordinator on YARN for all scenarios of this package."""

from __future__ import annotations

import getpass
from collections.abc import Iterator

import pytest

from samza_dagster.sandbox.lifecycle import Sandbox
from tests.integration.of_a_sandbox import client, judge, servers
from tests.rig.ours_on_yarn import ours_on_yarn

__all__ = ("client", "judge", "servers")

_QUEUES = "yarn.scheduler.capacity.root"
RIGHTS = {
    # Nobody else may submit to the queue.
    "yarn.acl.enable": "true",
    f"{_QUEUES}.acl_submit_applications": " ",
    f"{_QUEUES}.default.acl_submit_applications": getpass.getuser(),
}


@pytest.fixture(scope="package")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with ours_on_yarn(tmp_path_factory.mktemp("sandboxes"), settings=RIGHTS) as box:
        yield box
