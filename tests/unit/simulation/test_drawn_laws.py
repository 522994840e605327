"""A record that lacks a field is read as the documents mean, and a judge finds what isn't."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from samza_dagster.placement.codec import group_from_json, host_from_json, job_from_json
from samza_dagster.placement.state import Limits
from samza_dagster.simulation.judges import lacking
from samza_dagster.simulation.judges.violation import InvariantViolated

pytestmark = pytest.mark.unit


def test_a_record_that_lacks_a_field_says_what_the_documents_mean() -> None:
    """As a release writes it that doesn't know the field."""
    lacking.judge_lacking()


def test_a_field_that_is_read_as_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a job, its bounds, a host, and whatever a group holds."""

    def job(value: Any) -> Any:
        return replace(job_from_json(value), next_epoch=2)

    def bounds(value: Any) -> Any:
        return replace(job_from_json(value), limits=Limits(max_standbys=5))

    def host(value: Any) -> Any:
        return replace(host_from_json(value), registered=False)

    def group(value: Any) -> Any:
        found = group_from_json(value)
        members = {pid: replace(p, wanted=False) for pid, p in found.processors.items()}
        return replace(found, processors=members)

    for name, reader, field in (
        ("job_from_json", job, "job without next_epoch"),
        ("job_from_json", bounds, "limits without max_standbys"),
        ("host_from_json", host, "host without registered"),
        ("group_from_json", group, "processor without wanted"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(lacking, name, reader)
            with pytest.raises(InvariantViolated, match=f"records-restore: a {field}"):
                lacking.judge_lacking()


def test_bounds_of_a_job_without_settings_are_those_of_its_coordinator() -> None:
    """The table is the one that `docs/settings.md` is held against, too."""
    from samza_dagster.coordinator.limits import limits_of

    plain = limits_of({})
    assert {name: getattr(plain, name) for name in lacking.BOUNDS} == lacking.BOUNDS


def test_bounds_that_are_others_before_the_first_deployment_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job that nobody has deployed yet has them, too."""
    monkeypatch.setattr(
        lacking, "Limits", lambda: SimpleNamespace(**lacking.BOUNDS | {"retry_count": 7})
    )
    with pytest.raises(InvariantViolated, match="retry_count is read as 7"):
        lacking.judge_lacking()
