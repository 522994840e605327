"""What a sandbox under Samza's own Application Master is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.errors import Refused
from samza_dagster.sandbox.lifecycle import Options, Sandbox

pytestmark = pytest.mark.unit


def test_nobody_logs_in_there() -> None:
    assert Options().is_fenced
    assert not Options(yarn=True).is_fenced
    assert not Options(fencing="lease").is_fenced


def test_a_host_that_doesnt_run_cant_be_lost(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="host-9"):
        Sandbox("some", root=tmp_path).yarn.lose("host-9")
