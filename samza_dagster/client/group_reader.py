"""A standalone group as a client reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from samza_dagster.client.group_view import changelog_partitions, view_of_group
from samza_dagster.client.views import JobView
from samza_dagster.metadata.interface import MetadataStore
from samza_dagster.model import LocalityModel, ProcessorLocality
from samza_dagster.standalone.group import GroupView
from samza_dagster.standalone.job_config import published_config


class GroupReader:
    """One reading of a group, at the first question. `store` has its config beside what was asked of it."""

    def __init__(self, read: Callable[[], GroupView], store: MetadataStore) -> None:
        self._read = read
        self._store = store

    @cached_property
    def _group(self) -> GroupView:
        return self._read()

    def config(self) -> Mapping[str, str]:
        """The job's config as its processors have published it; empty where none of ours has."""
        return published_config(self._store)

    def changelog_partitions(self) -> Mapping[str, int]:
        """Active task → its changelog partition."""
        return changelog_partitions(self._group)

    def view(self, job_name: str, job_id: str, now_ms: int) -> JobView:
        """The job as its group tells it now."""
        return view_of_group(job_name, job_id, self._group, self.config(), now_ms)

    def locality(self, job_name: str, job_id: str) -> LocalityModel:
        """The location that each task has written last, by the task's name."""
        del job_name, job_id
        return LocalityModel(
            processor_localities={
                task: ProcessorLocality(id=task, host=location)
                for task, location in sorted(self._group.locality.items())
            }
        )
