"""Names that Samza derives, and ours beside them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.errors import InvalidInput
from samza_dagster.model import naming

pytestmark = pytest.mark.unit


def test_topics_of_a_job() -> None:
    """Underscores inside name and id become hyphens, in all of them."""
    assert naming.coordinator_stream_topic("my_job", "a_1") == "__samza_coordinator_my-job_a-1"
    assert naming.checkpoint_topic("my_job", "1") == "__samza_checkpoint_ver_1_for_my-job_1"
    assert naming.state_topic("my_job", "1") == "__samza_dagster_my-job_1"
    assert naming.audit_topic("my_job", "1") == "__samza_dagster_audit_my-job_1"


@given(st.text(st.characters(exclude_characters="-", codec="utf-8"), min_size=1), st.integers(0, 9))
def test_a_standby_leads_back_to_its_active(task: str, replica: int) -> None:
    """Task and container names of a standby say whose it is, and share the active's directory."""
    standby = naming.standby_task_name(task, replica)
    assert naming.active_task_of(standby) == task
    assert naming.store_directory("j", "1", "s", standby) == naming.store_directory(
        "j", "1", "s", task
    )
    container = naming.standby_container_id("3", replica)
    assert naming.is_standby(container)
    assert naming.group_of(container) == naming.group_of("3") == "3"


def test_a_task_name_that_samza_would_misread_has_no_standby() -> None:
    """The refusal names the task and what to change."""
    with pytest.raises(InvalidInput, match="a-b"):
        naming.standby_task_name("a-b", 0)
