"""What `auto_failover` takes for bad, and what it decides: values in, decisions out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watching import BEGIN, Fleet, Watching, container, leader_seen

from samza_dagster.coordinator.command import run_command
from samza_dagster.orchestration.watch.cursor import HOUR_MS, Act
from samza_dagster.orchestration.watch.failover import Decision, FailoverVerdict
from samza_dagster.orchestration.watch.observation import ContainerSeen, Observation
from samza_dagster.orchestration.watch.settings import Mode

pytestmark = pytest.mark.unit


def seen(ident: str, host: str | None, **more: Any) -> ContainerSeen:
    return container(ident, host, **{"reported_ms": 0, **more})


def sight(*containers: ContainerSeen, **more: object) -> Observation:
    given = {c.processor_id: c for c in containers}
    base = [
        seen(*at) for at in (("0", "h1"), ("0-0", "h2"), ("1", "h2"), ("1-0", "h3"), ("2", "h4"))
    ]
    made = Observation(
        "demo/1",
        "samza_dagster",
        tuple(given.pop(c.processor_id, c) for c in base) + tuple(given.values()),
        dict.fromkeys(("h1", "h2", "h3", "h4"), "alive"),
        {},
    )
    return replace(made, **more)  # type: ignore[arg-type]


def reporting(at: Observation, now_ms: int) -> Observation:
    """The same with a new report of each that reports."""
    new = (c if c.reported_ms is None else replace(c, reported_ms=now_ms) for c in at.containers)
    return replace(at, containers=tuple(new))


class Watch(Watching):
    """Looks 5 s apart; who has a report has a new one at each."""

    def look(self, at: Observation, times: int = 1, every_ms: int = 5_000) -> tuple[Decision, ...]:
        decisions: tuple[Decision, ...] = ()
        for _ in range(times):
            self.now += every_ms
            decisions += self.decide(reporting(at, self.now))
        return decisions


def told(decisions: tuple[Decision, ...]) -> list[tuple[str, str, str]]:
    return [(d.suspect.kind, d.processor, d.verdict.value) for d in decisions]


SICK = {"h1": 20_000}


def test_a_host_that_is_sick_but_alive_fails_its_active_over_after_enough_looks() -> None:
    """Two bad looks, not one; the run's key is derived from the failure."""
    watch = Watch()
    assert watch.look(sight(host_words=SICK)) == ()
    (decision,) = watch.look(sight(host_words=SICK))
    assert told((decision,)) == [("host-sick", "0", "ask")]
    (again,) = Watch().look(sight(host_words=SICK), 3)
    assert decision.uuid == again.uuid
    assert watch.look(sight(host_words=SICK), 5) == ()


@pytest.mark.parametrize(
    ("mode", "verdict"),
    [("shadow", "shadow"), ("advise", "advise"), ("act", "ask"), (None, "advise")],
)
def test_the_mode_says_how_far_it_goes(mode: Mode | None, verdict: str) -> None:
    """With what a person would run; under our coordinator it advises where no mode is chosen."""
    (decision,) = Watch(mode).look(sight(host_words=SICK), 3)
    assert decision.verdict == verdict
    assert decision.command == "samza-dagster fail-over 0"


@pytest.mark.parametrize(
    ("change", "verdict", "because"),
    [
        ({"busy": {"0": "request x is stopping"}}, "watch", "request x"),
        ({"host_states": {"h1": "lost", "h2": "alive"}}, "", ""),
        ({"coordinator": "samza"}, "watch", "Samza's AM"),
        ({"host_words": {"h1": 20_000, "h3": 20_000}}, "held", "mass: 2 of 4"),
        ({"host_words": {"h1": 20_000, "h2": 20_000}}, "held", "no standby"),
    ],
)
def test_what_holds_it_back_is_said(
    change: Mapping[str, object], verdict: str, because: str
) -> None:
    """The coordinator's own work, a loss that it noticed, Samza's wire, too much at once."""
    watch = Watch()
    bad = replace(sight(host_words=SICK), **change)  # type: ignore[arg-type]
    watch.settings = watch.settings.model_copy(update={"mass_share": 0.4})
    found = [d for d in watch.look(bad, 3) if d.processor == "0"]
    assert [d.verdict.value for d in found] == ([verdict] if verdict else [])
    assert all(because in d.because for d in found)


def test_one_bad_host_is_no_mass_however_few_there_are() -> None:
    """A job on two hosts is helped too."""
    watch = Watch()
    few = replace(
        sight(host_words=SICK),
        containers=(seen("0", "h1"), seen("0-0", "h2")),
        host_states={"h1": "alive", "h2": "alive"},
    )
    assert told(watch.look(few, 3)) == [("host-sick", "0", "ask")]


def test_a_group_is_blocked_until_it_is_acknowledged() -> None:
    """Also for another incarnation and another signal."""
    watch = Watch()
    watch.look(sight(host_words=SICK), 3)
    again = sight(seen("0", "h1", incarnation="0#2"), host_words=SICK)
    (held,) = watch.look(again, 3)
    assert (held.verdict, held.because.partition(":")[0]) == (FailoverVerdict.HELD, "block")
    watch.acknowledge("0")
    assert told(watch.look(again)) == [("host-sick", "0", "ask")]


def test_the_cap_of_the_hour_is_the_job_s() -> None:
    """Whatever group it is; an hour later it may again."""
    watch = Watch()
    watch.cursor = replace(watch.cursor, acts={f"u{n}": Act(f"{n}", BEGIN, 1) for n in (7, 8, 9)})
    (held,) = watch.look(sight(host_words=SICK), 3)
    assert held.because.startswith("cap: 3 requests")
    watch.now = BEGIN + HOUR_MS
    watch.look(sight(), 3)
    assert told(watch.look(sight(host_words=SICK), 3)) == [("host-sick", "0", "ask")]


@given(
    cap=st.integers(1, 5),
    times=st.lists(
        st.tuples(
            st.sets(st.sampled_from(["h0", "h1", "h2", "h3"])), st.integers(0, 90), st.booleans()
        ),
        max_size=6,
    ),
)
def test_in_every_history_cap_and_block_hold(
    cap: int, times: list[tuple[set[str], int, bool]]
) -> None:
    """However many hosts are sick at one look: so many requests an hour, and one a group until it is acknowledged."""
    fleet, asked = Fleet(8, cap=cap), list[int]()
    fleet.on = {f"{n}{s}": f"h{n % 4 + of}" for n in range(8) for s, of in (("", 0), ("-0", 4))}
    fleet.settings = fleet.settings.model_copy(update={"mass_share": 1.0})
    blocked = set[str]()
    for sick, minutes, acknowledged in times:
        fleet.now += 60_000 * minutes
        fleet.words = dict.fromkeys(sick, 20_000)
        if acknowledged:
            blocked = set()
            for group in range(8):
                fleet.acknowledge(str(group))
        for _ in range(4):
            now = [one.removeprefix("ask ") for one in fleet.look(1) if one.startswith("ask ")]
            assert len({*now} - blocked) == len(now)
            blocked |= {*now}
            asked += [fleet.now] * len(now)
            assert sum(fleet.now - at_ms < HOUR_MS for at_ms in asked) <= cap


def test_a_leader_that_shows_no_sign_of_life_is_named_and_nothing_is_asked() -> None:
    """Three beats missing."""
    watch = Watch()
    gone = sight(leader=leader_seen(BEGIN + 10_000), host_words=SICK)
    assert told(watch.look(gone, 3)) == [("host-sick", "0", "ask")]
    watch = Watch()
    watch.look(replace(gone, host_words={}), 4)
    decisions = watch.look(gone, 3)
    assert told(decisions) == [
        ("coordinator-gone", "coordinator", "advise"),
        ("host-sick", "0", "held"),
    ]
    required = [o.opts[0] for o in run_command.params if o.required]
    assert required
    assert all(f" {option} <" in decisions[0].command for option in required)


def test_a_leader_that_ended_in_order_is_gone_too() -> None:
    """Nobody took over."""
    watch = Watch("shadow")
    found = watch.look(sight(leader=leader_seen(BEGIN, ended=True)), 3)
    assert told(found) == [("coordinator-gone", "coordinator", "shadow")]


def test_an_active_that_commits_nothing_with_input_before_it_falls_behind() -> None:
    """A backlog alone is none: it may be catching up."""
    watch = Watch(stuck_s=60)
    stuck = sight(seen("0", "h1", left=50_000, position=7))
    assert watch.look(stuck, 12) == ()
    assert told(watch.look(stuck, 3)) == [("falling-behind", "0", "ask")]
    watch = Watch(stuck_s=60)
    for step in range(20):
        assert watch.look(sight(seen("0", "h1", left=50_000 - step, position=7 + step))) == ()


def test_a_burst_after_a_quiet_hour_is_no_falling_behind() -> None:
    """What had nothing to commit hasn't stood for that time: it counts from the burst on."""
    watch = Watch(stuck_s=60)
    assert watch.look(sight(seen("0", "h1", left=0, position=7)), 60, 60_000) == ()
    burst = sight(seen("0", "h1", left=50_000, position=7))
    assert watch.look(burst, 12) == ()
    assert watch.look(sight(seen("0", "h1", left=45_000, position=8)), 12) == ()
    behind = sight(seen("0", "h1", left=90_000, position=8))
    assert told(watch.look(behind, 2)) == [("falling-behind", "0", "ask")]


def test_a_standby_that_stands_still_while_its_changelog_grows_is_restarted() -> None:
    """By Samza's own message, under Samza's AM."""
    (decision,) = stalled(Watch())
    assert told((decision,)) == [("standby-stalled", "0-0", "ask")]
    assert decision.command == "samza-dagster place 0-0 --to LAST_SEEN"


def stalled(watch: Watch, coordinator: str = "samza") -> tuple[Decision, ...]:
    """What is decided while a standby stands still."""
    found: tuple[Decision, ...] = ()
    for step in range(60):
        still = seen("0-0", "h2", left=2_000 + step, position=500, end=2_500 + step)
        found += watch.look(sight(still, coordinator=coordinator))
    return found


def test_a_standby_that_is_silent_or_stalled_is_our_coordinators_own_business() -> None:
    """It restarts such a standby by itself."""
    assert stalled(Watch(), "samza_dagster") == ()
    assert Watch(report_silent_s=30).look(sight(seen("0-0", "h2", reported_ms=None)), 60) == ()


def test_a_changelog_that_does_not_grow_proves_nothing() -> None:
    """Its last offsets may be markers."""
    still = seen("0-0", "h2", left=2_000, position=500, end=2_500)
    assert Watch().look(sight(still, coordinator="samza"), 60) == ()


def test_a_standby_that_was_level_isnt_stalled_by_the_first_report_that_shows_a_lag() -> None:
    """It takes two reports of one offset."""
    watch = Watch()
    level = seen("0-0", "h2", left=0, position=500, end=500)
    burst = replace(level, left=9_500, end=10_000)
    for standby in (level, burst):
        for _ in range(12):
            watch.now += 5_000
            others = reporting(sight(coordinator="samza"), watch.now).by_id
            seen_now = {**others, "0-0": replace(standby, reported_ms=standby.end)}
            at = sight(coordinator="samza", containers=tuple(seen_now.values()))
            assert watch.decide(at) == ()


def test_what_cant_be_read_is_held_against_nobody_and_makes_nothing_good() -> None:
    """Who isn't heard may report into the lost partition; a suspect stays one, and nothing is asked."""
    watch = Watch(report_silent_s=30)
    unheard = sight(seen("0", "h1", reported_ms=None, unread=True))
    assert watch.look(unheard, 20) == ()
    watch = Watch("advise", stuck_s=60)
    stuck = seen("0", "h1", left=50_000, position=7)
    assert told(watch.look(sight(stuck), 15)) == [("falling-behind", "0", "advise")]
    unknown = replace(stuck, left=None, unread=True)
    assert watch.look(sight(unknown), 10) == ()
    assert [s.kind for s in watch.cursor.suspects.values()] == ["falling-behind"]
    watch.look(sight(replace(stuck, left=0)), 3)
    assert not watch.cursor.suspects


def test_nothing_is_moved_onto_or_restored_from_a_lost_changelog() -> None:
    """The running active's disk may have the only copy; a person decides, and other groups go on."""
    lost = {"0": "topic log doesn't exist"}
    watch = Watch()
    (decision,) = watch.look(sight(host_words=SICK, lost=lost), 3)
    assert told((decision,)) == [("host-sick", "0", "held")]
    assert (
        decision.because == "changelog lost: its state may be nowhere else: topic log doesn't exist"
    )
    assert told(watch.look(sight(host_words=SICK))) == [("host-sick", "0", "ask")]
    watch = Watch()
    assert told(watch.look(sight(host_words=SICK, lost={"1": ""}), 3)) == [
        ("host-sick", "0", "ask")
    ]


def test_a_standby_that_stood_still_isnt_well_because_its_changelog_is_gone() -> None:
    """It is no records behind of nothing."""
    watch = Watch("advise")
    stalled(watch)
    kinds = [s.kind for s in watch.cursor.suspects.values()]
    assert kinds == ["standby-stalled"]
    gone = seen("0-0", "h2", left=None, position=500, end=None)
    watch.look(sight(gone, coordinator="samza"), 20)
    assert [s.kind for s in watch.cursor.suspects.values()] == kinds
    well = seen("0-0", "h2", left=0, position=5, end=6)
    watch.look(sight(well, coordinator="samza"), 3)
    assert not watch.cursor.suspects


def test_a_container_that_reports_nothing_though_others_do_is_mute() -> None:
    """Unless it goes on committing: then only its reporter is broken."""
    watch = Watch(report_silent_s=30)
    mute = sight(seen("0", "h1", reported_ms=None))
    assert told(watch.look(mute, 9)) == [("silent", "0", "ask")]
    watch = Watch(report_silent_s=30)
    for step in range(20):
        commits = seen("0", "h1", reported_ms=None, left=1, position=step)
        assert watch.look(sight(commits)) == ()
    watch = Watch(report_silent_s=30)
    nobody = tuple(replace(c, reported_ms=None) for c in mute.containers)
    assert watch.look(replace(mute, containers=nobody), 20) == ()


def test_what_stood_still_isnt_well_because_it_falls_silent() -> None:
    """It is told as silent, and its former trouble isn't over."""
    watch = Watch("advise", stuck_s=60, report_silent_s=30)
    stuck = seen("0", "h1", left=50_000, position=7)
    assert told(watch.look(sight(stuck), 15)) == [("falling-behind", "0", "advise")]
    found: tuple[Decision, ...] = ()
    for _ in range(20):
        watch.now += 5_000
        others = reporting(sight(), watch.now).by_id
        mute = {**others, "0": replace(stuck, reported_ms=1)}
        found += watch.decide(sight(containers=tuple(mute.values())))
        assert watch.judged.over == ()
    assert told(found) == [("silent", "0", "advise")]


def test_a_host_all_of_whose_containers_are_mute_is_sick() -> None:
    """Once, not container by container."""
    watch = Watch(report_silent_s=30)
    mute = sight(seen("1", "h2", reported_ms=None), seen("0-0", "h2", reported_ms=None))
    assert told(watch.look(mute, 9)) == [("host-sick", "1", "ask")]


def test_a_new_incarnation_is_a_new_suspect() -> None:
    """What the former did isn't held against it."""
    watch = Watch(stuck_s=10)
    watch.look(sight(seen("0", "h1", left=50_000, position=7)), 4)
    assert watch.look(sight(seen("0", "h1", left=50_000, position=7, incarnation="0#2"))) == ()
