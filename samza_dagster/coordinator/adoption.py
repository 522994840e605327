"""Adoption: lead a job that Samza's own Application Master has deployed, on request alone.

A leader writes a new deployment over the other's config, and a live Application Master and ours
would both start containers. The topics name the deployment's owner (`job_owner`). YARN's
ResourceManager and signs of life show whether that owner lives.
"""

from __future__ import annotations

import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

from samza_dagster.errors import Refused, some_of
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.followed_topic import FollowedTopic
from samza_dagster.metadata.job_owner import Deployed
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.resource_manager import resource_manager
from samza_dagster.model.metrics_snapshots import TaskSample, metrics_topics, task_samples

log = logging.getLogger(__name__)
_ANSWER_S = 5.0
_MARGIN_S = 5.0
_LOOK_EVERY_S = 0.5


def require_ours(deployed: Deployed, *, adopt: bool) -> None:
    """Raise `Refused` for another's deployment, unless it is to be adopted."""
    if deployed.is_ours or adopt:
        return
    ours = f"ours was {deployed.ours}" if deployed.ours else "none was ever ours"
    raise Refused(
        "lead a job that another coordinator has deployed, as Samza's own Application Master",
        seen=f"the coordinator stream has deployment {deployed.run_id}, {ours}",
        fix="let it go on (`place` and the jobs work with it too); or end its YARN application, and "
        "add --adopt: a new deployment is then written over its config, and its containers replaced",
    )


def require_ended(deployed: Deployed, connection: Connection, stopped: threading.Event) -> None:
    """Raise `Refused` when the adopted deployment shows a sign of life.

    Signs are: YARN's ResourceManager reports that it runs, its Application Master answers, or its
    containers report, and still do after one interval of the job's metrics reporter. Raises
    `Unreachable` where the ResourceManager has an address and doesn't answer. Without a reporter
    containers show no sign.
    """
    if deployed.is_ours:
        return
    fix = (
        "end its YARN application (`yarn application -kill …`), wait for its containers, try again"
    )
    asked = f"adopt deployment {deployed.run_id}"
    if connection.resource_managers:
        yarn = resource_manager(connection.resource_managers)
        application = yarn.cluster(connection.job_name, connection.job_id).application
        if application is not None and not application.has_ended:
            raise Refused(asked, seen=f"YARN's ResourceManager: {application}", fix=fix)
        log.info("%s: YARN's ResourceManager: %s", asked, application or "it knows no such job")
    if deployed.master_url and answers(deployed.master_url):
        seen = f"its Application Master answers at {deployed.master_url}"
        raise Refused(asked, seen=seen, fix=fix)
    reporters = metrics_topics(deployed.config)
    if not reporters:
        log.warning("%s: no metrics reporter, so whether its containers live isn't known", asked)
        return
    listens_s = max(reporters.values()) + _MARGIN_S
    cluster = KafkaCluster.of(connection)
    with ExitStack() as stack:
        followed = [stack.enter_context(closing(FollowedTopic(cluster, t))) for t in reporters]

        def reporting() -> dict[str, TaskSample]:
            came = [record.value for each in followed for record in each.new_records()]
            return task_samples(came, connection.job_name, connection.job_id)

        log.info("%s: listening for %.0f s whether its containers report", asked, listens_s)
        if not any(list(_looks(reporting, listens_s, stopped))):
            return
        # A container reports once more as it ends, seconds after its application.
        log.info("%s: there were reports, perhaps the last ones: listening again", asked)
        for found in _looks(reporting, listens_s, stopped):
            if found:
                hosts = sorted({sample.host for sample in found.values()})
                seen = f"{len(found)} of its tasks report, on {some_of(hosts)}"
                raise Refused(asked, seen=seen, fix=fix)


def _looks(
    look: Callable[[], dict[str, TaskSample]], for_s: float, stopped: threading.Event
) -> Iterator[dict[str, TaskSample]]:
    """Yield what each look finds, for so many seconds or until `stopped`."""
    over = time.monotonic() + for_s
    while time.monotonic() < over:
        yield look()
        if stopped.wait(_LOOK_EVERY_S):
            return


def answers(url: str) -> bool:
    """Return whether a server answers HTTP there, whatever the answer."""
    try:
        with urllib.request.urlopen(url, timeout=_ANSWER_S):  # noqa: S310 - another scheme only fails
            return True
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False
