"""Writing the class archive, where it goes wrong."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from samza_dagster.errors import ActionFailed
from samza_dagster.snapshots import class_archive

pytestmark = pytest.mark.spark
LATE = """#!/bin/sh
sleep 300 &
echo $! > "$STARTED"
wait
"""


def test_a_jvm_that_is_late_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the command started ends with it, and no draft stays."""
    python, started = tmp_path / "python", tmp_path / "started"
    python.write_text(LATE)
    python.chmod(0o755)
    monkeypatch.setattr(class_archive.sys, "executable", str(python))
    monkeypatch.setattr(class_archive, "_DEADLINE_S", 2.0)
    environment = {
        **os.environ,
        "SAMZA_DAGSTER_HOME": str(tmp_path / "home"),
        "STARTED": str(started),
    }
    with pytest.raises(ActionFailed, match="not done in 2 s"):
        class_archive.dump(environment)
    status = Path(f"/proc/{started.read_text().strip()}/stat")
    deadline = time.monotonic() + 10
    while status.exists() and ") Z " not in status.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not status.exists() or ") Z " in status.read_text()
    assert list((tmp_path / "home" / "artifacts" / "archives").iterdir()) == []
