"""What ours would have done, by the reducer: one picture before, one after."""

from __future__ import annotations

import pytest

from samza_dagster.coordinator.shadow import decision as rules
from samza_dagster.coordinator.shadow.picture import Asked, Report
from samza_dagster.placement.state import Fencing, Limits
from tests.rig.shadow_pictures import AT, picture

pytestmark = pytest.mark.unit

LIMITS = Limits(fencing=Fencing.BROKER)
UUID = "914b0a7c-ebcd-4999-8099-05299ae8cb4e"


def asked(processor: str, destination: str) -> Asked:
    return Asked(UUID, processor, destination, "run-1", 99_000)


def test_a_process_that_ended_on_a_living_host_is_restarted_there_with_its_state() -> None:
    """With the figure of a restart on the same host, and no wait."""
    found = rules.after_failure(picture(), picture(101_000), "0", LIMITS)
    assert (found.action, found.host, found.with_state) == ("restart", "h1", True)
    assert (found.waits_s, found.expected_s) == (0.0, rules.RESTARTED.seconds)
    assert "restart on the same host" in found.figure


def test_an_active_of_a_lost_host_goes_to_its_standby_once_the_host_is_lost_for_ours_too() -> None:
    """The lag is the standby's last report; the host's time-out is in what is expected."""
    before = picture(reports={"0-0": Report("c-2", lag=17)})
    found = rules.after_failure(before, picture(101_000, lost="h1"), "0", LIMITS)
    assert (found.action, found.host, found.standby, found.lag) == ("fail-over", "h2", "0-0", 17)
    assert found.waits_s == LIMITS.host_timeout_ms / 1000
    assert found.expected_s == found.waits_s + rules.HOST_LOST.seconds


def test_without_a_fence_at_the_brokers_the_lease_is_waited_for() -> None:
    """A lease outlasts the time-out of the host: what the job's own settings cost stands in the answer."""
    limits = Limits(lease_ms=120_000)
    found = rules.after_failure(picture(), picture(101_000, lost="h1"), "0", limits)
    assert found.waits_s == (limits.lease_ms + limits.lease_bound_ms) / 1000


def test_a_host_that_takes_no_more_containers_hands_its_active_to_the_standby() -> None:
    """Its NodeManager is being decommissioned: a restart there isn't to be had."""
    found = rules.after_failure(picture(), picture(101_000, closed="h1"), "0", LIMITS)
    assert (found.action, found.host, found.standby) == ("fail-over", "h2", "0-0")
    assert found.expected_s == rules.FAILED_OVER.seconds


def test_an_active_without_a_standby_starts_cold_elsewhere_and_has_no_figure() -> None:
    """What a cold start takes grows with the state, which nobody has measured for this job."""
    at = {"0": "h1", "1": "h3"}
    found = rules.after_failure(picture(at=at), picture(101_000, at, lost="h1"), "0", LIMITS)
    assert (found.action, found.with_state) == ("restart", False)
    assert found.host in ("h2", "h4")
    assert found.expected_s is None


def test_where_no_host_is_left_ours_would_have_waited() -> None:
    """Its own host is lost, and no other is known."""
    at = {"0": "h1"}
    before = picture(at=at)
    after = picture(101_000, at, lost="h1")
    hosts = {"h1": after.view.hosts["h1"]}
    after.view.hosts.clear()  # type: ignore[attr-defined]
    after.view.hosts.update(hosts)  # type: ignore[attr-defined]
    found = rules.after_failure(before, after, "0", LIMITS)
    assert found.action == "nothing"
    assert found.because


def test_a_standby_is_restarted_and_its_end_is_no_downtime() -> None:
    found = rules.after_failure(picture(), picture(101_000), "0-0", LIMITS)
    assert (found.action, found.host, found.expected_s) == ("restart", "h2", None)


def test_a_container_that_fails_again_and_again_is_paused_by_ours() -> None:
    """By the retry window of the job's own settings."""
    failed = tuple(range(90_000, 90_000 + LIMITS.retry_count + 1))
    found = rules.after_failure(picture(), picture(101_000), "0", LIMITS, failed)
    assert found.waits_s == 30.0


def test_a_move_to_a_free_host_is_taken_and_has_no_figure() -> None:
    found = rules.of_request(picture(), picture(101_000), asked("0", "h3"), LIMITS)
    assert (found.action, found.host, found.expected_s) == ("move", "h3", None)


def test_a_move_to_the_standbys_host_is_refused_with_the_rule() -> None:
    found = rules.of_request(picture(), picture(101_000), asked("0", "h2"), LIMITS)
    assert found.action == "refuse"
    assert "same-host: 0-0 of the same group is running on h2" in found.because


def test_an_unknown_host_is_refused() -> None:
    found = rules.of_request(picture(), picture(101_000), asked("0", "h9"), LIMITS)
    assert found.action == "refuse"
    assert "destination-known" in found.because


def test_a_restart_has_the_figure_of_a_restart() -> None:
    found = rules.of_request(picture(), picture(101_000), asked("0", "LAST_SEEN"), LIMITS)
    assert (found.action, found.host) == ("restart", "h1")
    assert found.expected_s == rules.RESTARTED.seconds


def test_a_request_for_the_standbys_place_takes_it() -> None:
    """Samza's AM has no such word; ours takes the place of the standby in one action."""
    found = rules.of_request(picture(), picture(101_000), asked("0", "STANDBY"), LIMITS)
    assert (found.action, found.host) == ("move", "h2")
    assert found.expected_s == rules.ONTO_STANDBY.seconds


def test_any_host_is_another_legal_one() -> None:
    found = rules.of_request(picture(), picture(101_000), asked("0", "ANY_HOST"), LIMITS)
    assert found.action == "move"
    assert found.host in ("h3", "h4")


def test_a_replaced_master_of_ours_touches_no_container() -> None:
    """The same application with another deployment: only its Application Master was replaced."""
    found = rules.after_master(picture(), picture(101_000, run="run-2"), LIMITS)
    assert found.action == "run-on"


def test_what_no_picture_places_is_unknown() -> None:
    at = {**AT, "0": None}
    found = rules.after_failure(picture(at=at), picture(101_000, at), "0", LIMITS)
    assert found.action == "unknown"
