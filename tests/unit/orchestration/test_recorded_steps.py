"""Names that a run in flight over an upgrade goes on by: its steps' request uuids, and its tags."""

from __future__ import annotations

import pytest

from samza_dagster.orchestration import chain
from samza_dagster.orchestration.moves import extra_standby, phases, spun_up
from samza_dagster.orchestration.operations import control as runs
from samza_dagster.orchestration.requests import asking, verify
from samza_dagster.orchestration.requests.step_request import request_uuid

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("step", "attempt", "uuid"),
    [
        ("move", 0, "a8383852-37f3-5fcb-8d6b-161c79e29aff"),
        ("move", 1, "ed141130-aaf5-5924-987f-058ce9da770c"),
        ("relocate_standby", 0, "22db53a0-9d4d-51a5-aa4d-14e60973895a"),
        ("spin_up", 0, "1be7a046-01bd-5f25-a6e8-6501e2f938da"),
        ("commit", 0, "a758b103-13af-5c7e-8f14-85e7769607ec"),
        ("release", 0, "68c9e0a1-959c-559b-96a3-003f97dbe8d5"),
        ("remove_standby", 0, "5a73016d-904b-5678-b082-3853fe028bc8"),
        ("gives_place", 0, "6d34401f-664a-5fa9-9b76-4828e5a40790"),
        ("bounce/0-0", 0, "cf5124d1-16e6-5a39-96ef-2c9d5f934428"),
        ("bounce-release/0-0", 0, "d82c4ebe-e329-535e-b136-546a574efa47"),
        ("bounce-commit/0-0", 0, "54aca7a0-dae0-57a9-8724-8baab4ece2b2"),
        ("drain_host/host-1/0/move", 0, "09d16cb9-ed9e-5117-9a9b-134a2a640e15"),
    ],
)
def test_a_step_asks_by_the_uuid_that_it_had_before(step: str, attempt: int, uuid: str) -> None:
    """A re-execution of an older run finds its requests."""
    assert request_uuid("root", step, attempt) == uuid


def test_steps_and_tags_have_the_names_that_they_had_before() -> None:
    """As above: they are looked for in what an older release has written."""
    steps = (phases.MOVE, phases.RELOCATE, phases.SPIN_UP, asking.COMMIT, asking.RELEASE)
    assert steps == ("move", "relocate_standby", "spin_up", "commit", "release")
    assert (extra_standby.REMOVE_STANDBY, extra_standby.GIVES_PLACE) == (
        "remove_standby",
        "gives_place",
    )
    assert (chain.ROOT, verify.SINCE) == ("samza/root", "samza/since")
    assert (spun_up.SPINS_UP, spun_up.SPUN_UP) == ("samza/spins-up", "samza/spin-up-requests")
    assert (runs.BOUNCE, runs.CONTROL, runs.PROGRESS, runs.ROOT) == (
        "samza/bounce",
        "samza/bounce-control",
        "samza/progress",
        "samza/bounce-root",
    )
