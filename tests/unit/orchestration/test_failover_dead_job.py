"""A dead job, a lost host and an Application Master that is away, under Samza's own AM."""

from __future__ import annotations

from dataclasses import replace

import pytest
from watching import Watching, container, told

from samza_dagster.client.views import JobView
from samza_dagster.orchestration.watch.failover import Decision
from samza_dagster.orchestration.watch.observation import Observation, observation_of

pytestmark = pytest.mark.unit
MINUTE = 60_000
ENDED = "YARN's ResourceManager: application_1_0004 is FAILED, final status FAILED"


class Watched(Watching):
    """A job of two actives with standbys on nm1 to nm4, looked at every 5 s; reports each minute."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: dict[str, int] = dict.fromkeys(("0", "0-0", "1", "1-0"), self.now)
        self.hosts = {"0": "nm1", "0-0": "nm2", "1": "nm3", "1-0": "nm4"}
        self.silent: set[str] = set()
        self.unread = False
        self.sight = Observation(
            "demo/1",
            "samza",
            (),
            dict.fromkeys(("nm1", "nm2", "nm3", "nm4"), "alive"),
            deployment="run-1",
            report_patience_ms=3 * MINUTE,
        )

    def look(self, *, for_ms: int, every_ms: int = 5_000, **more: object) -> list[Decision]:
        """What is decided while nothing changes but time."""
        said: list[Decision] = []
        self.sight = replace(self.sight, **more)  # type: ignore[arg-type]
        for _ in range(0, for_ms, every_ms):
            self.now += every_ms
            for processor, at_ms in self.reports.items():
                if processor not in self.silent and self.now - at_ms >= MINUTE:
                    self.reports[processor] = self.now
            containers = tuple(
                container(
                    *(p, self.hosts[p]),
                    state="last-seen",
                    incarnation="",
                    reported_ms=at_ms,
                    unread=self.unread,
                )
                for p, at_ms in self.reports.items()
            )
            said += self.decide(replace(self.sight, containers=containers))
        return said


def test_a_job_that_yarn_has_ended_is_told_at_once_and_nothing_is_asked_of_it() -> None:
    """By the second look. Its containers fall silent too, which is no news; the advice is one that helps."""
    watched = Watched()
    assert watched.look(for_ms=5 * MINUTE) == []
    (decision,) = watched.look(for_ms=10_000, dead=ENDED, application="FAILED")
    assert told([decision]) == [("job-dead", "job", "advise")]
    assert decision.suspect.why == ENDED
    assert decision.command.startswith("deploy the job again")
    watched.silent = set(watched.reports)
    assert watched.look(for_ms=10 * MINUTE) == []


def test_a_job_that_died_again_after_another_deployment_is_told_again() -> None:
    watched = Watched()
    watched.look(for_ms=MINUTE, dead=ENDED)
    watched.look(for_ms=MINUTE, dead="", deployment="run-2")
    assert told(watched.look(for_ms=MINUTE, dead=ENDED)) == [("job-dead", "job", "advise")]


def test_without_yarns_word_a_job_is_dead_when_two_reports_of_each_have_not_come() -> None:
    """They come a minute apart, as is Samza's default, and may be half of one late."""
    watched = Watched()
    watched.look(for_ms=5 * MINUTE)
    watched.silent = set(watched.reports)
    last_ms = max(watched.reports.values())
    found = watched.look(for_ms=5 * MINUTE // 2 - (watched.now - last_ms))
    assert all(d.suspect.kind != "job-dead" for d in found)
    (decision,) = (d for d in watched.look(for_ms=15_000) if d.suspect.kind == "job-dead")
    assert "all 4 containers that reported have been silent for 155 s" in decision.suspect.why


@pytest.mark.parametrize(
    "change",
    [{"application": "RUNNING"}, {"coordinator": "samza_dagster"}, {}],
    ids=["yarn says that it runs", "our coordinator leads", "not all can be read"],
)
def test_silence_alone_isnt_death_where_something_else_may_be_its_cause(
    change: dict[str, object],
) -> None:
    watched = Watched()
    watched.look(for_ms=5 * MINUTE)
    watched.silent = set(watched.reports)
    watched.unread = not change
    found = watched.look(for_ms=10 * MINUTE, **change)  # type: ignore[arg-type]
    assert all(d.suspect.kind != "job-dead" for d in found)


def test_a_resource_manager_that_is_away_is_told_and_silence_counts_again() -> None:
    view = JobView("demo", "1", "run-1", {}, {}, yarn_unread="http://rm:8088: timed out")
    assert observation_of(view).unread == ("YARN's ResourceManager: http://rm:8088: timed out",)
    watched = Watched()
    watched.look(for_ms=5 * MINUTE, application="RUNNING")
    watched.silent = set(watched.reports)
    found = watched.look(for_ms=5 * MINUTE, application="", unread=observation_of(view).unread)
    assert "job-dead" in [d.suspect.kind for d in found]


def test_what_was_bad_before_hasnt_recovered_because_the_job_died() -> None:
    watched = Watched()
    watched.look(for_ms=5 * MINUTE)
    watched.silent = {"0"}
    assert told(watched.look(for_ms=3 * MINUTE))[0][:2] == ("silent", "0")
    before = set(watched.cursor.suspects)
    watched.look(for_ms=MINUTE, dead=ENDED)
    assert before < set(watched.cursor.suspects)


def test_a_host_that_yarn_has_lost_is_left_to_the_application_master() -> None:
    """It starts the containers elsewhere, and check `replicas_present` says so: nothing is told here."""
    watched = Watched()
    watched.look(for_ms=MINUTE, application="RUNNING")
    watched.silent = {"0"}
    states = {**watched.sight.host_states, "nm1": "lost"}
    assert watched.look(for_ms=5 * MINUTE, host_states=states) == []


def test_an_application_master_that_is_away_is_told_with_what_helps() -> None:
    """Until the next one runs, nobody reads a request."""
    watched = Watched()
    (decision,) = watched.look(for_ms=15_000, application="ACCEPTED")
    assert told([decision]) == [("coordinator-gone", "coordinator", "advise")]
    assert "ACCEPTED: no Application Master runs" in decision.suspect.why
    assert "YARN starts another Application Master" in decision.command
    assert watched.look(for_ms=MINUTE, application="RUNNING") == []
