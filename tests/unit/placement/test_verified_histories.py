"""What the reducer records in a virtual world under faults, judged by `verify` alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement import ownership, rules
from samza_dagster.placement.state import Group, Phase
from samza_dagster.placement.verification import Head, Rule, Verdict, verify
from tests.simulation import driver
from tests.simulation.setup import Setup
from tests.simulation.steps import handle
from tests.simulation.world import World
from tests.unit.placement.chronicle import broken
from tests.unit.placement.scenes import PLACES, QUICK, fresh

pytestmark = pytest.mark.unit


@pytest.fixture
def worlds(monkeypatch: pytest.MonkeyPatch) -> list[World]:
    """Every world that is built."""
    built: list[World] = []
    build = Setup.build

    def remember(setup: Setup, *args: object) -> World:
        built.append(build(setup, *args))  # type: ignore[arg-type]
        return built[-1]

    monkeypatch.setattr(Setup, "build", remember)
    return built


def verdict_of(seed: int, worlds: list[World]) -> Verdict:
    driver.simulate(seed, 200)
    world = worlds.pop()
    records = [command.record for command in world.brokers.audit]
    head = Head(world.committed.certificates, world.committed.certificate_hash)
    return verify(records, head)


def nothing_taken(_group: Group, _processor_id: str) -> dict[str, rules.Violation]:
    return {}


def nothing_in_the_way(_group: Group, _processor_id: str, _host: str) -> None:
    return None


def only_its_own_orphan_in_the_way(group: Group, processor_id: str, _host: str) -> str | None:
    return "it may own" if ownership.owning_orphan(group, processor_id) else None


@pytest.mark.parametrize(
    ("forgotten", "rule"),
    [
        ({"obstacle": nothing_in_the_way}, "one-owner"),
        (
            {"taken_hosts": nothing_taken, "obstacle": only_its_own_orphan_in_the_way},
            "same-host",
        ),
    ],
)
def test_a_heart_that_forgot_a_rule_is_found_out(
    worlds: list[World],
    monkeypatch: pytest.MonkeyPatch,
    forgotten: dict[str, Callable[..., object]],
    rule: str,
) -> None:
    """By its own records."""
    for name, instead in forgotten.items():
        monkeypatch.setattr(rules, name, instead)
    violations = (verdict_of(seed, worlds).violation for seed in range(20))
    assert any(violation is not None and violation.rule == rule for violation in violations)


def test_a_heart_that_waits_for_the_owners_before_leaves_a_history_that_shows_it() -> None:
    """From one container to two: each start says how tasks are grouped, and the order is right."""
    world = fresh()
    one, two = {"0": ("0",)}, {"0": ("0",), "1": ("1",)}
    handle(world, ev.JobDeployed(world.now_ms, "run-1", one, PLACES, QUICK, "all in one"))
    world.until_all_run()
    handle(world, ev.JobDeployed(world.now_ms, "run-2", two, PLACES, QUICK, "halves"))
    world.until(lambda: world.phases().get("1") is Phase.RUNNING)
    records = [command.record for command in world.sent(cmd.RecordCertificate)]
    assert verify(records).ok
    starts = [r for r in records if r.kind == "start"]
    assert [r.grouping for r in starts] == ["all in one", "halves", "halves"]
    (end,) = [r for r in records if r.kind == "end"]
    (alien,) = [r for r in starts if r.processor_id == "1"]
    assert broken([starts[0], alien, end]) == (2, Rule.REGROUPED)
