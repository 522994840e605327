"""Locality: where containers and tasks run. A model of its own beside the JobModel (SAMZA-1554).

In a standalone group each task's location is a record of its own. In a cluster, where tasks move
with their container, Samza records a container's tasks and its host, and a task's host follows from
both.
"""

from __future__ import annotations

from samza_dagster.model.job_model import JobModel, WireModel


class ProcessorLocality(WireModel):
    """The host that a processor last reported (`ProcessorLocality` of Samza)."""

    id: str
    host: str
    jmx_url: str = ""
    jmx_tunneling_url: str = ""


class LocalityModel(WireModel):
    """All processor localities of a job, as `/locality` serves them."""

    processor_localities: dict[str, ProcessorLocality]

    def host_of(self, processor_id: str) -> str | None:
        """Return the host of a processor, or None when it never reported one."""
        found = self.processor_localities.get(processor_id)
        return found.host if found is not None and found.host else None


def task_hosts(job_model: JobModel, locality: LocalityModel) -> dict[str, str]:
    """Return task name → host, for every task of a processor that has reported a host."""
    hosts: dict[str, str] = {}
    for processor_id, container in job_model.containers.items():
        host = locality.host_of(processor_id)
        if host is not None:
            hosts.update(dict.fromkeys(container.tasks, host))
    return hosts
