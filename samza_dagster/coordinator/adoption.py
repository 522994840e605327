"""Leading a job that Samza's own Application Master has deployed: only when told to.

To lead writes a new deployment over the other's config, and a live Application Master and ours
would both start containers. What the topics say tells whose deployment it is; what moves or
answers tells whether it lives.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass

from samza_dagster.errors import MalformedRecord, Refused, UnknownTopic, some_of
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.coordinator_stream import SET_CONFIG, decode_envelope
from samza_dagster.metadata.followed_topic import FollowedTopic
from samza_dagster.metadata.interface import MetadataStore
from samza_dagster.metadata.job_metadata import DEPLOYMENT_ID, TRACKING_URL
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.kafka_store import KafkaMetadataStore
from samza_dagster.metadata.state_topic import DEPLOYMENT, StateReader
from samza_dagster.model.metrics_snapshots import metrics_topics, task_samples

log = logging.getLogger(__name__)
_ANSWER_S = 5.0
_MARGIN_S = 5.0
_LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class Deployed:
    """Who deployed the job: the coordinator stream's `app.run.id`, and ours by the state topic.

    `config` is the stream's, `master_url` the Application Master's tracking URL in it.
    """

    run_id: str | None = None
    ours: str | None = None
    config: Mapping[str, str] | None = None
    master_url: str | None = None

    @property
    def is_ours(self) -> bool:
        """Or nobody's: nothing was ever deployed."""
        return self.run_id in (None, self.ours)


def require_ours(deployed: Deployed, *, adopt: bool) -> None:
    """Raises `Refused` for another's deployment, unless it is to be adopted."""
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
    """Raises `Refused` when the adopted deployment shows a sign of life.

    Its Application Master answers, or its containers report: that is listened for, for one
    interval of the job's metrics reporter. Without a reporter nothing tells of containers.
    """
    if deployed.is_ours:
        return
    fix = (
        "end its YARN application (`yarn application -kill …`), wait for its containers, try again"
    )
    asked = f"adopt deployment {deployed.run_id}"
    if deployed.master_url and answers(deployed.master_url):
        seen = f"its Application Master answers at {deployed.master_url}"
        raise Refused(asked, seen=seen, fix=fix)
    reporters = metrics_topics(deployed.config or {})
    if not reporters:
        log.warning("%s: no metrics reporter, so whether its containers live isn't known", asked)
        return
    listens_s = max(reporters.values()) + _MARGIN_S
    log.info("%s: listening for %.0f s whether its containers report", asked, listens_s)
    cluster = KafkaCluster(connection.bootstrap_servers, connection.client_config)
    with ExitStack() as stack:
        followed = [stack.enter_context(closing(FollowedTopic(cluster, t))) for t in reporters]
        over = time.monotonic() + listens_s
        while time.monotonic() < over:
            came = [record.value for each in followed for record in each.new_records()]
            found = task_samples(came, connection.job_name, connection.job_id)
            if found:
                hosts = sorted({sample.host for sample in found.values()})
                told = f"{len(found)} of its tasks report, on {some_of(hosts)}"
                raise Refused(asked, seen=told, fix=fix)
            if stopped.wait(_LOOK_EVERY_S):
                return


def answers(url: str) -> bool:
    """Somebody answers HTTP there, whatever the answer."""
    try:
        with urllib.request.urlopen(url, timeout=_ANSWER_S):  # noqa: S310 - another scheme only fails
            return True
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False


def read_deployed(connection: Connection) -> Deployed:
    """What stands in the topics now; those that don't exist say nothing. Raises `Unreachable`.

    A leader of ours writes both in one transaction, which may come between the two reads:
    what disagrees is read once more.
    """
    found = _read(connection)
    return found if found.is_ours else _read(connection)


def _read(connection: Connection) -> Deployed:
    servers, login = connection.bootstrap_servers, connection.client_config
    ours: str | None = None
    with contextlib.suppress(UnknownTopic):
        reader = StateReader(servers, connection.state_topic, client_config=login)
        with closing(reader):
            record = reader.snapshot().records.get(DEPLOYMENT)
            value = record.value if record is not None else None
            ours = str(value.get("deployment_id")) if value else None
    with contextlib.suppress(UnknownTopic):
        store = KafkaMetadataStore(
            *(servers, connection.coordinator_stream_topic),
            client_config=login,
            on_malformed=lambda _: None,
            committed_only=True,
        )
        with closing(store):
            return deployed_by(store, ours)
    return Deployed(ours=ours)


def deployed_by(store: MetadataStore, ours: str | None) -> Deployed:
    """What a coordinator stream says. A record that can't be read hides no other one.

    A run id that can't be read is whose the job was: ours if it ever was, else another's. An
    Application Master that deploys it writes one that can be.
    """
    config: dict[str, str] = {}
    unread: set[str] = set()
    for key, raw in store.all(SET_CONFIG).items():
        try:
            config[key] = str(decode_envelope(raw).values["value"])
        except (MalformedRecord, KeyError):
            unread.add(key)
    run_id = config.get(DEPLOYMENT_ID)
    if DEPLOYMENT_ID in unread:
        run_id = ours or "(not readable)"
    return Deployed(run_id, ours, config, config.get(TRACKING_URL))
