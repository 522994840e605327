"""What shares a sandbox stays on one worker."""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling


class _Folders(LoadScopeScheduling):
    """A worker takes a folder at a time, for its tests share a sandbox."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.split("::", maxsplit=1)[0].rpartition("/")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _Folders | None:
    """For `--dist loadscope`."""
    return _Folders(config, log) if config.getvalue("dist") == "loadscope" else None
