"""Real brokers and containers, and the kernel as witness of what runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from samza_dagster.sandbox.broker import Broker


def processes_of(directory: Path) -> list[str]:
    """Command lines of all processes that name `directory`, from the kernel."""
    found: list[str] = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = each.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if str(directory) in command:
            found.append(command[:200])
    return found


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as started:
        yield started
