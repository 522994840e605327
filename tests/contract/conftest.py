"""The order of the level: what takes longest begins first, or a worker would end with it alone."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The kill matrix first, all else as it stands."""
    items.sort(key=lambda item: not item.path.name.startswith("test_killed_in_"))
