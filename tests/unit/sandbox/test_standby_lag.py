"""The offset file that a container keeps beside a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.model import naming
from samza_dagster.sandbox.demo_job import JOB_ID, JOB_NAME, STORE
from samza_dagster.sandbox.standby_lag import applied_offset

pytestmark = pytest.mark.unit


def _store(state: Path, framing: bytes) -> None:
    store = state / naming.store_directory(JOB_NAME, JOB_ID, STORE, "Partition 0")
    store.mkdir(parents=True)
    (store / "OFFSET-v2").write_bytes(framing + b'{"kafka.log.0":"52409"}')


@pytest.mark.parametrize(
    "framing", [b"\xac\xed\x00\x05w\x08\x01\x02", b"\xac\xed\x00\x05w\x08\x00{\x02", b'w\x08{"\x01']
)
def test_a_brace_in_the_checksum_is_not_taken_for_the_json(tmp_path: Path, framing: bytes) -> None:
    """About one file in thirty has one: its offset was once taken for unknown."""
    _store(tmp_path, framing)
    assert applied_offset(tmp_path, "Partition 0") == 52409


def test_no_store_has_no_offset(tmp_path: Path) -> None:
    """Unknown is None, not 0."""
    assert applied_offset(tmp_path, "Partition 0") is None
