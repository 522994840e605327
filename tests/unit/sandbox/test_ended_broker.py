"""A broker that ends by itself while a sandbox comes up: named at once, with what its log says."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from samza_dagster.errors import ActionFailed
from samza_dagster.sandbox import process
from samza_dagster.sandbox.brokers import Brokers
from samza_dagster.sandbox.process import ProcessRecord

pytestmark = pytest.mark.unit


def brokers(directory: Path, record: ProcessRecord, log: str) -> Brokers:
    """One, whose process is the given one."""
    made = Brokers(directory, 1)
    (node,) = made.nodes = made._new_nodes()
    node._process = record
    directory.mkdir(exist_ok=True)
    node.log.write_text(log)
    return made


def ended(directory: Path) -> ProcessRecord:
    """A real process that is over."""
    record = process.spawn("broker", [sys.executable, "-c", ""], log=directory / "out.log")
    assert record.wait(20.0)
    return record


def test_one_that_runs_is_fine(tmp_path: Path) -> None:
    """Whatever its log says."""
    own = ProcessRecord.of("broker", os.getpid())
    brokers(tmp_path / "broker", own, "No space left on device").require_running()


@pytest.mark.parametrize(
    ("log", "seen", "fix"),
    [
        (
            "java.io.IOException: No space left on device\n" + "later\n" * 50,
            "No space",
            "another disk",
        ),
        ("OutOfMemoryError: Java heap space\n", "OutOfMemoryError", "broker.log"),
    ],
)
def test_one_that_has_ended_is_told_with_its_reason(
    tmp_path: Path, log: str, seen: str, fix: str
) -> None:
    """A full disk by its name, though a broker says more after it."""
    with pytest.raises(ActionFailed) as raised:
        brokers(tmp_path / "broker", ended(tmp_path), log).require_running()
    assert seen in raised.value.seen
    assert fix in raised.value.fix
