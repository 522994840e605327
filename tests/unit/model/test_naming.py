"""Names that Samza derives, and ours beside them."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from samza_dagster.coordinator.fencing.principals import PrincipalNames
from samza_dagster.errors import InvalidInput, Refused
from samza_dagster.model import naming
from samza_dagster.orchestration.choices import keys_of
from samza_dagster.orchestration.tags import group_tag, job_tag
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import JobState

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


JOB_PART = st.text(st.characters(exclude_characters="/", codec="utf-8"), min_size=1)
LOOKS_ALIKE = st.text(st.sampled_from("ab1-_.2de"), min_size=1, max_size=6)
JOBS = st.tuples(JOB_PART | LOOKS_ALIKE, JOB_PART | LOOKS_ALIKE)
PROCESSORS = st.from_regex(r"[0-9](-[0-9])?", fullmatch=True)


def _started(job: tuple[str, str], processor: str, number: int) -> str:
    draft = Draft(JobState(naming.own_name(*job), next_request=number), 0)
    return draft.execution_id(processor, draft.new_request_id())


@settings(max_examples=300)
@given(JOBS, JOBS, PROCESSORS, PROCESSORS, st.integers(0, 9), st.integers(0, 9))
def test_no_two_jobs_share_a_name_of_ours(
    one: tuple[str, str], two: tuple[str, str], p: str, q: str, n: int, m: int
) -> None:
    """Nor do the ids of their incarnations, their logins and the tags of their runs."""
    assume(one != two)
    assert naming.own_name(*one) != naming.own_name(*two)
    assert _started(one, p, n) != _started(two, q, m)
    assert PrincipalNames(*one).user(_started(one, p, n)) != PrincipalNames(*two).user(
        _started(two, q, m)
    )
    assert job_tag("/".join(one)) != job_tag("/".join(two))
    assert group_tag("/".join(one), p) != group_tag("/".join(two), q)
    names = [keys_of("/".join(job), "processors").name for job in (one, two)]
    assert names[0] != names[1]


@settings(max_examples=300)
@given(JOBS, JOBS)
def test_one_transactional_id_for_each_state_topic(
    one: tuple[str, str], two: tuple[str, str]
) -> None:
    """Jobs that share a state topic fence one another, all others leave each other alone."""
    same_topic = naming.state_topic(*one) == naming.state_topic(*two)
    assert (naming.transactional_id(*one) == naming.transactional_id(*two)) == same_topic


@given(st.from_regex(r"[A-Za-z0-9_-]+", fullmatch=True), st.from_regex(r"\w+", fullmatch=True))
def test_a_job_whose_id_has_no_hyphen_keeps_its_names(name: str, job_id: str) -> None:
    """They read as one would write them."""
    assume(job_id.isascii())
    assert naming.own_name(name, job_id) == f"{name}-{job_id}"


@given(JOBS)
def test_a_name_of_ours_is_safe_in_a_path_and_a_url(job: tuple[str, str]) -> None:
    """Nothing leads out of a directory."""
    assert re.fullmatch(r"[A-Za-z0-9._-]+", naming.own_name(*job))
    assert naming.own_name(*job) not in (".", "..")


@given(JOBS)
def test_a_stream_is_of_the_job_that_it_names(job: tuple[str, str]) -> None:
    """One without a name is nobody's, one without an id is of the job with id 1."""
    name, job_id = job
    naming.require_owner({}, name, job_id)
    naming.require_owner({"job.name": name, "job.id": job_id}, name, job_id)
    naming.require_owner({"job.name": name}, name, "1")
    with pytest.raises(Refused, match="is of job"):
        naming.require_owner({"job.name": f"{name}x", "job.id": job_id}, name, job_id)
