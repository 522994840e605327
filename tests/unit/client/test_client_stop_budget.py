"""What Samza's AM counts against a container, against its own rule and what was recorded of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.client.stop_budget import SLACK_MS, StopBudget, stop_budgets
from samza_dagster.errors import Refused
from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE, REQUEST
from samza_dagster.placement import texts
from tests.rig.placement_response import response
from tests.rig.recorded_am import WIRE

pytestmark = pytest.mark.unit

COUNT, WINDOW = (
    "cluster-manager.container.retry.count",
    "cluster-manager.container.retry.window.ms",
)
NOW_MS = 1_795_264_720_000
DELAY_MS = 361_000


@dataclass
class SamzasCount:
    """`ContainerProcessManager.onResourceCompletedWithUnknownStatus` of one processor, word by word."""

    retry_count: int
    window_ms: int
    count: int = 0
    last_ms: int | None = None
    delay_ms: int = 0

    def next(self, now_ms: int) -> int:
        """Which failure in a row one at that time would be."""
        if self.last_ms is None or now_ms - (self.last_ms + self.delay_ms) >= self.window_ms:
            return 1
        return self.count + 1

    def fail(self, now_ms: int) -> None:
        self.count = self.next(now_ms)
        self.last_ms, self.delay_ms = now_ms, DELAY_MS * (self.count == self.retry_count)


def answer(
    at_ms: int,
    status: StatusCode = StatusCode.SUCCEEDED,
    message: str = texts.started("host-1"),
    processor: str = "0",
) -> PlacementResponse:
    told = {"processor_id": processor, "destination_host": "LAST_SEEN"}
    return response(status=status, timestamp=at_ms, response_message=message, **told)


def budget(
    answers: list[PlacementResponse],
    now_ms: int = NOW_MS,
    config: dict[str, str] | None = None,
    queued: int = 0,
) -> StopBudget:
    return stop_budgets(config or {}, ["0"], answers, ["0"] * queued, now_ms)["0"]


def row(stops: int, now_ms: int = NOW_MS) -> list[PlacementResponse]:
    """So many stops of late, 10 s apart."""
    return [answer(now_ms - 10_000 * (stops - n)) for n in range(stops)]


WAITS = st.lists(st.tuples(st.integers(0, 700_000), st.integers(0, SLACK_MS)), max_size=30)


@given(WAITS, st.integers(1, 9), st.sampled_from([0, 1_000, 300_000]), st.integers(0, SLACK_MS))
def test_it_never_counts_less_than_samzas_am(
    waits: list[tuple[int, int]], most: int, window_ms: int, ahead_ms: int
) -> None:
    """Whatever is between the stops, an answer a minute late, a clock that is a minute ahead."""
    samza, answers, now = SamzasCount(most, window_ms), list[PlacementResponse](), NOW_MS
    config = {COUNT: str(most), WINDOW: str(window_ms)}
    for wait, late in waits:
        now += wait
        seen = budget(answers, now + ahead_ms, config)
        assert seen.counted + 1 >= samza.next(now)
        samza.fail(now)
        now += late
        answers.append(answer(now))


@given(WAITS, st.integers(2, 9))
def test_who_goes_by_it_leaves_one_failure_for_a_crash(
    waits: list[tuple[int, int]], most: int
) -> None:
    """However often somebody asks, and as soon as they may."""
    samza, answers, now = SamzasCount(most, 300_000), list[PlacementResponse](), NOW_MS
    for wait, late in waits:
        seen = budget(answers, now + wait, {COUNT: str(most)})
        now += wait if seen.refusal("place 0") is None else wait + seen.wait_ms
        assert budget(answers, now, {COUNT: str(most)}).refusal("place 0") is None
        samza.fail(now)
        assert samza.count <= most - 1
        now += late
        answers.append(answer(now))


@given(st.lists(st.integers(0, 700_000).filter(lambda gap: not 300_000 <= gap < 360_000)))
def test_it_counts_what_samzas_am_counts(gaps: list[int]) -> None:
    """Where each answer comes with its stop, and no gap is within the minute that is kept for that."""
    samza, answers, now = SamzasCount(10**9, 300_000), list[PlacementResponse](), NOW_MS
    for gap in gaps:
        now += gap
        samza.fail(now)
        answers.append(answer(now))
        assert budget(answers, now, {COUNT: str(10**9)}).counted == samza.count


def test_the_recorded_ninth_restart_would_not_have_been_asked_for() -> None:
    """Nine restarts of 1-0 ended the job that was recorded."""
    scenarios = [json.loads(line) for line in (WIRE / "scenarios.jsonl").open()]
    answers: list[PlacementResponse] = []
    for number in range(1, 10):
        (told,) = [s for s in scenarios if s["scenario"] == f"repeat LAST_SEEN of 1-0 #{number}"]
        seen = stop_budgets({}, ["1-0"], answers, [], told["sent"])["1-0"]
        assert seen.counted == number - 1
        assert bool(seen.notice()) == (number >= 5)
        assert (seen.refusal("place 1-0") is not None) == (number >= 8)
        last = [event for event in told["events"] if event["kind"] == "resp"][-1]
        answers.append(answer(last["ts"], StatusCode(last["status"]), last["msg"], "1-0"))
    assert "stop in progress" in answers[-1].response_message, "the last thing that it told"


def test_requests_without_an_end_count_as_if_they_stopped_now() -> None:
    """Else nine that nobody waits for would all be asked before the first stops."""
    waiting = [answer(NOW_MS, StatusCode.IN_PROGRESS, texts.RESOURCES_REQUESTED)]
    seen = budget([*row(3), *waiting], queued=3)
    assert seen.counted == 7
    assert seen.wait_ms == 300_000 + SLACK_MS
    assert seen.refusal("place 0") is not None


def test_a_start_that_is_told_as_failed_minutes_later_counts_from_its_stop() -> None:
    """Recorded: 184 s after it, when the host had died meanwhile."""
    failed = (StatusCode.FAILED, texts.start_failed("host-2", "host-1"))
    assert budget([answer(NOW_MS - 400_000), answer(NOW_MS, *failed)]).counted == 2
    assert budget([answer(NOW_MS - 400_000), answer(NOW_MS)]).counted == 1


def test_a_clock_of_the_am_that_is_ahead_ages_its_stops_by_its_own_answers() -> None:
    """An hour ahead: what it told last of another container tells how old the others are."""
    ahead = 3_600_000
    stops = [answer(NOW_MS + ahead - 500_000), answer(NOW_MS + ahead, processor="1")]
    assert budget(stops).counted == 0
    only = budget(stops[:1])
    assert only.counted == 1
    assert only.free_at_ms == NOW_MS + 360_000, "dated in the future it is of now"


def test_a_clock_of_the_am_that_is_set_back_forgets_nothing() -> None:
    """By the order of the stream, as the AM counts itself."""
    stops = [answer(NOW_MS + 3_600_000), answer(NOW_MS)]
    assert budget(stops).counted == 2


def test_the_older_keys_and_samzas_defaults_count_where_the_newer_are_not_given() -> None:
    """As `ClusterManagerConfig` reads them; no AM runs with what is no number."""
    older = {"yarn.container.retry.count": "3", "yarn.container.retry.window.ms": "1000"}
    assert (budget([], config=older).most, budget([], config=older).window_ms) == (3, 1_000)
    newer = budget([], config={**older, COUNT: "5"})
    assert newer.most == 5
    assert (budget([]).most, budget([]).window_ms) == (8, 300_000)
    odd = budget(row(1), config={COUNT: "many", WINDOW: "9" * 30})
    assert (odd.most, odd.window_ms) == (8, 300_000)


def test_a_negative_retry_count_ends_no_job() -> None:
    """Nothing is counted."""
    assert stop_budgets({COUNT: "-1"}, ["0"], row(20), [], NOW_MS) == {}


def test_with_a_retry_count_of_0_the_first_is_refused() -> None:
    """Waiting wouldn't help."""
    refused = budget([], config={COUNT: "0"}).refusal("place 0")
    assert refused is not None
    assert "with a retry count of 0 the first ends the job" in refused.asked
    assert "retry.count of 2 or more" in refused.fix


def test_a_refusal_says_rule_what_counts_and_when_it_is_free_again() -> None:
    """And how to ask all the same."""
    refused = budget(row(7)).refusal("place 0")
    assert refused is not None
    assert "stop 9 of a row ends the job" in refused.asked
    assert "stop 8 is left for a crash" in refused.asked
    assert refused.seen == (
        "this would be stop 8 of 0 in a row; 7 count until 2026-11-21 12:44:30 UTC"
    )
    assert "ask after 2026-11-21 12:44:30 UTC" in refused.fix
    assert "--beyond-budget" in refused.fix
    kept = budget(row(7), config={"cluster-manager.container.fail.job.after.retries": "false"})
    assert "leaves the container down" in str(kept.refusal("place 0"))


def test_several_stops_are_refused_together() -> None:
    """What a job asks of one container in steps."""
    assert budget(row(5)).refusal("place 0") is None
    assert budget(row(5)).refusal("place 0", 3) is not None
    assert "stops 6 to 8" in budget(row(5)).notice(3)


@pytest.fixture
def spent(job: Any) -> Callable[[int], Any]:
    """The job after so many placements of 0."""

    def after(stops: int, **changes: Any) -> Any:
        for number in range(stops):
            job.now_ms += 10_000
            uuid = f"00000000-0000-4000-8000-{number:012d}"
            job.respond(uuid, StatusCode.SUCCEEDED, texts.started("host-1"), **changes)
        return job

    return after


@pytest.mark.parametrize("stops", range(8))
def test_every_plan_notices_from_the_fifth_and_refuses_the_eighth(
    spent: Callable[[int], Any], stops: int
) -> None:
    """Whatever the destination; and whoever asks all the same is told."""
    client = spent(stops).client()
    for destination in ("LAST_SEEN", "FORCE_RESTART_LAST_SEEN", "host-2", "ANY_HOST"):
        plan = client.plan("0", destination)
        noticed = any("in a row" in notice for notice in plan.notices)
        assert (plan.refusal is not None, noticed) == (stops == 7, 4 <= stops < 7)
        beyond = client.plan("0", destination, beyond_budget=True)
        assert beyond.refusal is None
        assert any("in a row" in notice for notice in beyond.notices) == (stops >= 4)


def test_the_eighth_is_not_written_unless_somebody_says_so(spent: Callable[[int], Any]) -> None:
    """Another container's is."""
    job = spent(7)
    client = job.client()
    with pytest.raises(Refused, match="stop 8 of 0 in a row"):
        client.place("0", "LAST_SEEN")
    assert not [key for key in job.store.all(PLACEMENT_NAMESPACE) if key.endswith(REQUEST)]
    assert client.place("1", "LAST_SEEN").processor_id == "1"
    assert client.place("0", "LAST_SEEN", beyond_budget=True).processor_id == "0"
    job.now_ms += 361_000
    assert client.plan("1", "LAST_SEEN").notices == ()


def test_requests_that_nobody_waits_for_are_counted_before_they_are_taken(job: Any) -> None:
    """Seven at once, and no eighth."""
    client = job.client()
    for _ in range(7):
        client.place("0", "LAST_SEEN")
    with pytest.raises(Refused, match="stop 8 of 0 in a row"):
        client.place("0", "LAST_SEEN")


def test_what_is_asked_again_under_its_uuid_is_not_refused(spent: Callable[[int], Any]) -> None:
    """It writes nothing."""
    known = spent(7).client().place("0", "host-2", uuid=f"00000000-0000-4000-8000-{0:012d}")
    assert known.uuid.endswith("000000000000")


def test_another_deployments_stops_count_for_nothing(spent: Callable[[int], Any]) -> None:
    """Each AM counts from its own start."""
    assert spent(8, deployment_id="before").client().plan("0", "LAST_SEEN").refusal is None


def test_what_counts_is_not_cleaned_up(spent: Callable[[int], Any]) -> None:
    """Else the AM would count what nobody knows of any more."""
    job = spent(7)
    assert job.client().unneeded(older_than_s=0) == ()
    job.now_ms += 400_000
    assert len(job.client().unneeded(older_than_s=0)) == 7


def test_our_coordinator_counts_no_stops(spent: Callable[[int], Any]) -> None:
    """Only failures, and they end nothing."""
    job = spent(8)
    job.led_by_ours()
    view = job.client().view()
    assert view.stop_budgets == {}
    assert job.client().plan("0", "LAST_SEEN").refusal is None
