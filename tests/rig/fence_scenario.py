"""A lost host whose active the brokers shut out, under the kill matrix."""

from __future__ import annotations

from dataclasses import dataclass

from samza_dagster.coordinator.fencing.broker_fence import present
from samza_dagster.coordinator.fencing.principals import Principals
from samza_dagster.metadata.authorizer import DENY, Authorizer
from samza_dagster.metadata.kafka_client import KafkaCluster
from tests.rig.at_rest import Processors
from tests.rig.history import followers
from tests.rig.job import Job
from tests.rig.kill_points import Scenario
from tests.rig.kill_scenarios import set_apart, swapped
from tests.rig.waiting import until


@dataclass(frozen=True)
class BrokersWord:
    """What the brokers know of a job's containers, asked at their plain listener."""

    authorizer: Authorizer
    principals: Principals

    @classmethod
    def of(cls, job: Job) -> BrokersWord:
        """Of a job with the fence."""
        principals = Principals.of(job.properties)
        assert principals is not None
        return cls(Authorizer(KafkaCluster(job.bootstrap_servers)), principals)

    def known(self) -> set[str]:
        """Execution ids with a login or a rule."""
        return set(present(self.principals, self.authorizer))

    def denied(self, execution_id: str) -> list[str]:
        """Operations that it may not do, whatever else it may."""
        rules = self.authorizer.rules(self.principals.principal(execution_id))
        return [rule.operation for rule in rules if rule.permission == DENY]

    def only_who_runs_is_known(self, job: Job) -> None:
        """Waits for it: of whoever is dead neither a login nor a rule is left."""

        def strangers() -> set[str]:
            return self.known() ^ {p["execution_id"] for p in job.processors().values()}

        until("the brokers know who runs, and nobody else", lambda: not strangers())


def _restore(job: Job, before: Processors) -> None:
    word = BrokersWord.of(job)
    _judge(word, job, before)
    job.start_agent(before["0"]["host"])
    word.only_who_runs_is_known(job)


def _judge(word: BrokersWord, job: Job, before: Processors) -> None:
    """Who was lost is shut out and nobody else; the certificate of who follows says so."""
    lost, now = before["0"]["execution_id"], job.processors()
    assert word.denied(lost) == ["ALL"]
    assert not [name for name, p in now.items() if word.denied(p["execution_id"])]
    found = followers(job.connection, lost)
    assert found == {now["0"]["execution_id"]: ("broker", "fenced")}, (lost, now["0"], found)


HOST_FENCED = Scenario(
    "host-fenced",
    lambda job, before: job.kill_host(before["0"]["host"]),
    swapped,
    prepare=set_apart,
    restore=_restore,
    # The lease outlasts all patience: whoever waited for it would never come to the end.
    options={"lease_ms": 600_000, "host_timeout_ms": 3_000},
)
