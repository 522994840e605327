"""Each alert over hours of series, judged by Prometheus' own promtool.

`ALERTS` has one entry for each alert of the file. The stories that befall every alert of a kind are
told once: the condition lasts for six hours, the leader changes every four minutes, what counts
is there at the first scrape, scrapes fail for a while, a process starts anew.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest
import yaml

from samza_dagster.cli.monitoring import content
from tests.rig.promtool import promtool

pytestmark = pytest.mark.unit
A_MINUTE = 4  # scrapes
BEFORE_M = 20
SIX_HOURS_M = 6 * 60
LONG_AGO_S = -100_000
Phases = list[tuple[int, float | None]]
"""Minutes and what is scraped in them; None: scrapes fail. Time begins with the first, at 0."""


class Story(NamedTuple):
    """Series by their text, and at which minutes the alert fires and at which it doesn't."""

    name: str
    series: Mapping[str, Phases]
    fires: list[int]
    is_silent: list[int]
    evaluated_every: str = "1m"


class Alert(Protocol):
    """An entry of `ALERTS`; `labels` and `summary` are those of its first story, when it fires first."""

    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def summary(self) -> str: ...
    def stories(self) -> Iterator[Story]: ...


OWN_LABELS = {
    "samza_dagster_agent_": 'host="host-1",',
    "samza_dagster_processor_": 'job="orders-1",processor="p-{}",',
    "samza_dagster_": 'job="orders-1",',
    "up": "",
}


def of_target(series: str, instance: str) -> str:
    """A series of a metric as Prometheus has it: with the labels of its job, host or processor, and of the target."""
    name, _, labels = series.partition("{")
    own = next(labels for prefix, labels in OWN_LABELS.items() if name.startswith(prefix))
    labels = own.format(instance) + labels
    return f'{name}{{instance="{instance}",{labels.removesuffix("}")}}}'.replace(",}", "}")


class Lasting(NamedTuple):
    """An alert on a state that lasts: series → its value when all is well, and when it isn't."""

    name: str
    series: Mapping[str, tuple[float, float]]
    after_m: int
    summary: str
    labels: Mapping[str, str] = {"job": "orders-1"}

    def stories(self) -> Iterator[Story]:
        """What an agent or a processor tells of itself comes from one target always; what a leader tells doesn't."""
        well, wrong, after = 0, 1, self.after_m
        over = BEFORE_M + SIX_HOURS_M
        yield Story(
            "it lasts for six hours and is over",
            self.told(a=[(BEFORE_M, well), (SIX_HOURS_M, wrong), (60, well)]),
            [BEFORE_M + after, *range(BEFORE_M + 60, over, 60), over - 1],
            [BEFORE_M - 1, *([BEFORE_M + after - 1] if after else []), over + 2, over + 50],
        )
        yield Story("it was so at the first scrape", self.told(a=[(60, wrong)]), [after, 59], [])
        if after:
            short = self.told(a=[(BEFORE_M, well), (after, wrong), (60, well)])
            yield Story("it is over before long", short, [], [*range(BEFORE_M, BEFORE_M + 60, 2)])
        if "instance" in self.labels:
            return
        turns: Phases = [(3, wrong), (1, None), (4, None)]
        yield Story(
            "the leader changes every four minutes and is away for one",
            self.told(a=turns * 45, b=[(4, None), *turns * 45]),
            [after + 1, *range(60, SIX_HOURS_M, 61)],
            [],
        )
        yield Story(
            "scrapes fail for three minutes, twice",
            self.told(a=[(1, wrong), (3, None), (30, wrong), (3, None), (30, wrong)]),
            [*range(max(after, 1), 66)],
            [],
        )
        yield Story(
            "the next leader sees that it is over",
            self.told(a=[(60, wrong), (60, None)], b=[(61, None), (59, well)]),
            [59],
            [62, 90],
        )

    def told(self, **targets: Phases) -> dict[str, Phases]:
        """Every series by each target; a phase of 0 has the value when all is well, of 1 the other."""
        return {
            of_target(series, target): [
                (minutes, None if state is None else values[int(state)])
                for minutes, state in phases
            ]
            for target, phases in targets.items()
            for series, values in self.series.items()
        }


class Counted(NamedTuple):
    """An alert on events: the counter's family and labels, how many it takes, and within how long."""

    name: str
    family: str
    enough: int
    within_m: int
    summary: str
    labels: Mapping[str, str] = {"job": "orders-1"}

    def stories(self) -> Iterator[Story]:
        """A counter begins at 0 with each leader, or agent, and `_created` tells when."""
        enough, within, started = self.enough, self.within_m, 120
        end = started + within
        yield Story(
            "counted while it is watched, once",
            self.told(a=[LONG_AGO_S, (started, 7), (within + 60, 7 + enough)]),
            [started + 1, end - 2],
            [started - 1, end + 2, end + 50],
        )
        yield Story(
            "one too few",
            self.told(a=[LONG_AGO_S, (started, 7), (within + 60, 7 + enough - 1)]),
            *([], [*range(1, end + 60, 7)]),
            evaluated_every="61s",  # between scrapes, where increase() extrapolates
        )
        yield Story(
            "counted before a new leader's first scrape",
            self.told(
                a=[LONG_AGO_S, (started - 1, 5), (within + 60, None)],
                b=[started * 60 - 30, (started, None), (within + 60, enough)],
            ),
            [started, end - 2],
            [started - 1, end + 1, end + 50],
        )
        restart: Phases = [(started - 1, 5), (1, None)]
        for told, after in (("before its first scrape", enough), ("nothing", 0)):
            (series, phases), (created, _) = self.told(
                a=[0, *restart, (within + 60, after)]
            ).items()
            began: Phases = [(started, LONG_AGO_S), (within + 60, started * 60 - 30)]
            yield Story(
                f"a process starts anew at the same target and counts {told}",
                {series: phases, created: began},
                [started, end - 2] if after else [],
                [started - 1, end + 2] if after else [*range(started, end + 60)],
            )
        yield Story(
            "counted long before the first scrape, and scrapes fail for hours",
            self.told(a=[LONG_AGO_S, (90, 50), (120, None), (90, 50)]),
            *([], [*range(0, 300, 7)]),
        )
        yield Story(
            "counted while scrapes fail",
            self.told(a=[LONG_AGO_S, (started, 0), (10, None), (within, enough)]),
            [started + 10, started + within - 1],
            [started + 9],
        )
        often: Phases = [(10, n * enough) for n in range(SIX_HOURS_M // 10)]
        yield Story(
            "counted for six hours",
            self.told(a=[LONG_AGO_S, *often]),
            [*range(60, SIX_HOURS_M, 7)],
            [],
        )

    def told(self, **targets: Any) -> dict[str, Phases]:
        """By each target: when its process began, then what it counts."""
        name, brace, labels = self.family.partition("{")
        found: dict[str, Phases] = {}
        for target, (began, *phases) in targets.items():
            found[of_target(f"{name}_total{brace}{labels}", target)] = phases
            found[of_target(f"{name}_created{brace}{labels}", target)] = [
                (minutes, None if value is None else began) for minutes, value in phases
            ]
        return found


class Own(NamedTuple):
    """An alert with stories that no other has."""

    name: str
    summary: str
    told: tuple[Story, ...]
    labels: Mapping[str, str] = {"job": "orders-1"}

    def stories(self) -> Iterator[Story]:
        yield from self.told


EPOCH = "samza_dagster_leader_epoch"
A, B = (of_target(EPOCH, target) for target in "ab")


def turns(changes: int, every_m: int) -> dict[str, Phases]:
    """Terms of leadership, at two targets in turn, and one that lasts."""
    first: Phases = []
    second: Phases = []
    for epoch in range(changes + 1):
        leads, waits = (first, second) if epoch % 2 == 0 else (second, first)
        minutes = every_m if epoch < changes else 120
        leads.append((minutes, 500 + epoch))
        waits.append((minutes, None))
    return {A: first, B: second}


NO_COORDINATOR = Own(
    "SamzaDagsterNoCoordinator",
    "Nobody coordinates orders-1",
    (
        Story(
            "the leader is gone for six hours",
            {A: [(20, 7), (SIX_HOURS_M + 60, None)], B: [(20 + SIX_HOURS_M, None), (60, 8)]},
            [22, *range(30, SIX_HOURS_M, 30), 19 + SIX_HOURS_M],
            [19, 21, 21 + SIX_HOURS_M, 60 + SIX_HOURS_M],
        ),
        Story(
            "one minute between two leaders",
            {A: [(20, 7), (100, None)], B: [(21, None), (99, 8)]},
            *([], [*range(110)]),
        ),
        Story("scrapes fail for a minute", {A: [(20, 7), (1, None), (60, 7)]}, [], [*range(80)]),
        Story(
            "a job is given up",
            {A: [(20, 7), (9 * 24 * 60, None)]},
            [6 * 24 * 60],
            [8 * 24 * 60],
            evaluated_every="1h",
        ),
    ),
)
CHANGES_OFTEN = Own(
    "SamzaDagsterCoordinatorChangesOften",
    "orders-1 has had 4 changes of leader in 30 minutes",
    (
        Story("four changes in 30 minutes", turns(4, 5), [21], [16, 60]),
        Story(
            "six hours of them, one every four minutes",
            turns(SIX_HOURS_M // 4, 4),
            [*range(20, SIX_HOURS_M, 7)],
            [15, SIX_HOURS_M + 40],
        ),
        Story("one every ten minutes", turns(12, 10), [], [*range(0, 140, 2)]),
    ),
)


REGISTRATIONS = "samza_dagster_processor_registrations"
SIZE = "samza_dagster_processor_group_size"


def registered(every_m: int, times: int, first: int = 40) -> dict[str, Phases]:
    """A group of three that `a` tells of, later `b`; after 20 minutes one registers again, so often and at that interval."""
    whole = [
        (20, first),
        *((every_m, first + n + 1) for n in range(times - 1)),
        (90, first + times),
    ]
    half = len(whole) // 2
    minutes = [sum(m for m, _ in part) for part in (whole[:half], whole[half:])]
    told: tuple[Phases, ...] = (
        [*whole[:half], (minutes[1], None)],
        [(minutes[0], None), *whole[half:]],
    )
    sizes: tuple[Phases, ...] = (
        [(minutes[0], 3), (minutes[1], None)],
        [(minutes[0], None), (minutes[1], 3)],
    )
    return {
        of_target(series, target): phases
        for series, each in ((REGISTRATIONS, told), (SIZE, sizes))
        for target, phases in zip("ab", each, strict=True)
    }


def started(*minutes: int) -> dict[str, Phases]:
    """When the process at a target began, which is away for a minute each time."""
    phases: Phases = [(20, LONG_AGO_S)]
    for n, each in enumerate(minutes):
        phases += [(1, None), (each - 1, 1_000 * (n + 1))]
    return {of_target("samza_dagster_processor_session_losses_created", "a"): phases}


REBALANCES_OFTEN = Own(
    "SamzaDagsterGroupRebalancesOften",
    "Processors of orders-1 have registered 9 times in an hour",
    (
        Story(
            "nine in half an hour, over a change of who tells",
            registered(4, 9),
            [53, 70],
            [50, 120],
        ),
        Story(
            "each of three restarts, and five times more", registered(4, 8), [], [*range(0, 110, 5)]
        ),
        Story("six hours of them", registered(4, 90), [*range(60, 360, 10)], [40, 460]),
        Story("one every twenty minutes", registered(20, 18), [], [*range(0, 400, 10)]),
    ),
)
RESTARTS_OFTEN = Own(
    "SamzaDagsterProcessorRestartsOften",
    "Processor p-a of orders-1 was started anew 3 times in an hour",
    (
        Story("three in half an hour", started(10, 10, 120), [42, 70, 79], [39, 82, 140]),
        Story("two of them, as in an upgrade that is taken back", started(10, 120), [], [*range(0, 140, 5)]),
        Story("six hours of them", started(*[10] * 36, 120), [*range(60, 360, 10)], [30, 450]),
        Story("its scrapes fail for minutes", {of_target("samza_dagster_processor_session_losses_created", "a"): [(20, 7), (5, None)] * 6}, [], [*range(0, 150, 5)]),
    ),
    {"job": "orders-1", "processor": "p-a"},
)  # fmt: skip


def of_leader(
    alert: str, metric: str, wrong: float, after_m: int, summary: str, **labels: str
) -> Lasting:
    """On a gauge of the leader that is 0 when all is well."""
    shown = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return Lasting(
        f"SamzaDagster{alert}",
        {f"samza_dagster_{metric}{{{shown}}}": (0, wrong)},
        after_m,
        summary,
        {"job": "orders-1", **labels},
    )


def of_processor(alert: str, metric: str, values: tuple[float, float], summary: str) -> Lasting:
    """On a gauge that a standalone processor tells of itself."""
    return Lasting(
        f"SamzaDagsterProcessor{alert}",
        {f"samza_dagster_processor_{metric}": values},
        0,
        f"Processor p-a of orders-1 {summary}",
        {"job": "orders-1", "processor": "p-a", "instance": "a"},
    )


ALERTS: tuple[Alert, ...] = (
    NO_COORDINATOR,
    CHANGES_OFTEN,
    of_leader("ActiveNotRunning", "needed_containers", 2, 5, "2 actives of orders-1 don't run", role="Active"),
    of_leader("StandbyNotRunning", "needed_containers", 2, 15, "2 standbys of orders-1 don't run", role="Standby"),
    of_leader("NoPlaceForContainer", "degraded_containers", 1, 10, "1 containers of orders-1 have no place"),
    of_leader("ContainerFlaps", "flapping_containers", 1, 5, "1 containers (Active) of orders-1 fail again and again", role="Active"),
    of_leader("HostLost", "hosts_lost", 1, 1, "1 hosts of orders-1 are silent"),
    of_leader("UnaccountedContainer", "unaccounted_containers", 2, 15, "2 containers of orders-1 may live on silent hosts"),
    of_leader("StandbyFarBehind", "standby_lag_records", 100_001, 15, "Standby 0-0 of orders-1 is 100001 records behind", processor="0-0"),
    of_leader("StandbySilent", "standby_lag_unknown", 1, 10, "How far standby 0-0 of orders-1 is behind isn't known", processor="0-0"),
    Counted("SamzaDagsterStandbyStandsStill", "samza_dagster_stalled_standbys", 3, 60, "Standbys of orders-1 stood still and were restarted 3 times in an hour"),
    Counted("SamzaDagsterFailoverWithoutStandby", "samza_dagster_failovers_to_any_host", 1, 60, "An active of orders-1 failed over without its standby"),
    Counted("SamzaDagsterPlacementFails", "samza_dagster_failed_container_placements_actions", 1, 60, "Placement actions of orders-1 ended FAILED"),
    of_leader("ActionStuck", "longest_action_silence_seconds", 660, 0, "A placement action of orders-1 has told nothing for 11m 0s"),
    of_leader("RequestsPileUp", "requests_queued", 51, 15, "51 placement requests of orders-1 wait"),
    Counted("SamzaDagsterBadRequests", "samza_dagster_malformed_requests", 1, 60, "Requests for orders-1 can't be read"),
    Counted("SamzaDagsterBadRequests", "samza_dagster_ignored_requests", 1, 60, "Requests for orders-1 can't be read"),
    Counted("SamzaDagsterReportsUnreadable", "samza_dagster_ignored_reports", 1, 15, "Metrics snapshots of orders-1 can't be read"),
    Counted("SamzaDagsterHigherEpochSeen", "samza_dagster_refused_epochs", 1, 15, "An agent of orders-1 has seen a higher epoch than its leader's"),
    Lasting(
        "SamzaDagsterAgentCutOff",
        {"samza_dagster_agent_coordinator_silence_seconds": (2, 90)},
        0,
        "The agent of host-1 has had no answer for 1m 30s",
        {"host": "host-1", "instance": "a"},
    ),
    Lasting(
        "SamzaDagsterLeaseEndsSoon",
        {
            "samza_dagster_agent_lease_left_seconds": (118, -120),
            "samza_dagster_agent_coordinator_silence_seconds": (2, 240),
        },
        0,
        "The lease of host-1 has -2m 0s left",
        {"host": "host-1", "instance": "a"},
    ),
    Lasting(
        "SamzaDagsterAgentDown",
        {'up{job="samza_dagster_agent"}': (1, 0)},
        2,
        "The agent at a isn't there",
        {"job": "samza_dagster_agent", "instance": "a"},
    ),
    Counted(
        "SamzaDagsterContainersEndByThemselves",
        'samza_dagster_agent_container_ends{asked="no"}',
        4,
        15,
        "4 containers on host-1 ended by themselves in 15 minutes",
        {"host": "host-1"},
    ),
    Lasting(
        "SamzaDagsterProcessorDown",
        {'up{job="samza_dagster_processor"}': (1, 0)},
        2,
        "The standalone processor at a isn't there",
        {"job": "samza_dagster_processor", "instance": "a"},
    ),
    of_processor("CutOff", "zookeeper_silence_seconds", (2, 40), "has had no answer of ZooKeeper for 40s"),
    of_leader("TasksWithoutProcessor", "processor_tasks_without_processor", 2, 3, "2 active tasks of orders-1 have no processor"),
    of_processor("BehindVersion", "behind_seconds", (0, 330), "hasn't run the agreed version for 5m 30s"),
    of_leader("BarrierStuck", "processor_unagreed_versions", 2, 5, "The group of orders-1 hasn't agreed on 2 versions"),
    of_leader("DuplicateProcessor", "processor_duplicates", 1, 2, "Two processors of orders-1 have one id"),
    REBALANCES_OFTEN,
    RESTARTS_OFTEN,
)  # fmt: skip
RULES: Mapping[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load(content("samza_dagster_alerts.yml"))["groups"]
    for rule in group["rules"]
}


def test_prometheus_takes_the_files_as_they_are_written(tmp_path: Path) -> None:
    """Rules and the example of a configuration, by promtool's own check."""
    for name in ("prometheus.yml", "samza_dagster_alerts.yml"):
        (tmp_path / name).write_bytes(content(name))
    checked = subprocess.run(
        [promtool(), "check", "config", tmp_path / "prometheus.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(RULES)} rules found" in checked.stdout


def test_every_alert_is_told_of_here() -> None:
    """An alert that is added brings its entry of `ALERTS`."""
    assert [*dict.fromkeys(alert.name for alert in ALERTS)] == [*RULES]


def values(phases: Phases) -> str:
    """As promtool writes them; the first scrape that fails ends a series at once."""
    return " ".join(
        f"stale _x{minutes * A_MINUTE - 1}"
        if value is None
        else f"{value:.0f}x{minutes * A_MINUTE - 1}"
        for minutes, value in phases
    )


@pytest.mark.parametrize(
    "alert", ALERTS, ids=[f"{n}: {each.name}" for n, each in enumerate(ALERTS)]
)
def test_an_alert_fires_while_its_condition_lasts_and_no_longer(
    alert: Alert, tmp_path: Path
) -> None:
    """promtool evaluates the rule over each story's series, and is asked at each of its minutes."""
    rules = tmp_path / "rules.yml"
    rules.write_text(json.dumps({"groups": [{"name": "one", "rules": [RULES[alert.name]]}]}))
    files: list[Path] = []
    for number, story in enumerate(alert.stories()):
        document = {
            "rule_files": [rules.name],
            "evaluation_interval": story.evaluated_every,
            "tests": [judged(alert, story, is_first=number == 0)],
        }
        files.append(tmp_path / f"{number} {story.name.replace('/', ' ')}.yml")
        files[-1].write_text(json.dumps(document, indent=1))
    ran = subprocess.run(
        [promtool(), "test", "rules", *files], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def judged(alert: Alert, story: Story, *, is_first: bool) -> dict[str, Any]:
    """A test of promtool; labels and summary are told of an alert's first story."""
    rule = RULES[alert.name]
    firing = f'count(ALERTS{{alertname="{alert.name}",alertstate="firing"}}) or vector(0)'
    told = {
        "exp_labels": {**rule["labels"], **alert.labels},
        "exp_annotations": {**rule["annotations"], "summary": alert.summary},
    }
    return {
        "interval": "15s",
        "input_series": [
            {"series": series, "values": values(phases)} for series, phases in story.series.items()
        ],
        "promql_expr_test": [
            {
                "expr": firing,
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": "{}", "value": value}],
            }
            for value, minutes in ((1, story.fires), (0, story.is_silent))
            for minute in minutes
        ],
        "alert_rule_test": [
            {"alertname": alert.name, "eval_time": f"{minute}m", "exp_alerts": [told]}
            for minute in story.fires[:1]
            if is_first
        ],
    }
