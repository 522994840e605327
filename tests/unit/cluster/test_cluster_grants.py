"""Leases: whole ones for hosts that were admitted, the rest of an old one for others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.cluster.host_record import HostRecord

pytestmark = pytest.mark.unit

LONGEST = 30.0
steps = st.lists(
    st.tuples(st.floats(0, 40), st.sampled_from(["ask", "lose", "admit"]), st.floats(0, 60)),
    max_size=30,
)


@given(steps)
def test_no_lease_outlives_the_promise_of_a_host_that_isnt_admitted(
    history: list[tuple[float, str, float]],
) -> None:
    """Whatever is asked when: every lease ends within one of `granted_at`, which only a whole
    grant moves on. The coordinator replaces what ran on a lost host after that.
    """
    now = 0.0
    record = HostRecord("h")
    latest_end = 0.0
    for pause, what, may_grant in history:
        now += pause
        if what == "lose":
            record.lost, record.admitted = True, False
        elif what == "admit":
            record.admitted = True
        else:
            before = record.granted_at
            lease = max(0.0, record.lease_s(now, free_s=may_grant, longest_s=LONGEST))
            if lease > 0:
                latest_end = max(latest_end, now + lease)
            assert lease <= may_grant
            if not record.admitted:
                assert record.granted_at == before
        assert latest_end <= record.granted_at + LONGEST + 1e-9
