"""Laws that no history reaches: each is judged of drawn cases, and finds what is a little wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from samza_dagster.placement import leases
from samza_dagster.placement.codec import group_from_json, host_from_json, job_from_json
from samza_dagster.placement.leases import Round, Witnesses
from samza_dagster.placement.state import Limits
from samza_dagster.simulation.judges import lacking, renewals
from samza_dagster.simulation.judges.violation import InvariantViolated

pytestmark = pytest.mark.unit

OUTAGES = 300


def draw_outages() -> None:
    for draw in range(OUTAGES):
        renewals.judge_renewals(Limits(), draw)


class Careless(Round):
    """A round that any word of a witness answers."""

    @classmethod
    def of(cls, witnesses: Witnesses, number: int, now_ms: int) -> Round:
        return cls(number, now_ms, witnesses.hosts, witnesses.hosts)

    def answered(self, host: str, number: int) -> Round:
        return super().answered(host, max(number, self.number))


class Lonely(Round):
    """A round that proves something although it asked nobody."""

    @classmethod
    def of(cls, witnesses: Witnesses, number: int, now_ms: int) -> Round:
        return cls(number, now_ms, witnesses.hosts, witnesses.hosts)

    def completed_ms(self) -> int | None:
        return None if self.missing else self.began_ms


class Hasty(Witnesses):
    """Witnesses of the pending record alone."""

    def joined(self, pending: Witnesses | None) -> Witnesses:
        return self if pending is None else pending


def late(*_: Any) -> int:
    return 10**9


WRONG: list[tuple[str, Callable[[pytest.MonkeyPatch], None]]] = [
    ("any word counts", lambda m: m.setattr(renewals, "Round", Careless)),
    ("nobody is asked", lambda m: m.setattr(renewals, "Round", Lonely)),
    ("another record", lambda m: m.setattr(renewals, "Witnesses", Hasty)),
    ("led for ever", lambda m: m.setattr(leases, "proven_ms", late)),
    ("granted for ever", lambda m: m.setattr(leases, "grant_ms", late)),
    (
        "over at once",
        lambda m: m.setattr(leases, "earlier_are_over_ms", lambda _l, _w, at_ms, _r: at_ms),
    ),
    ("left for ever", lambda m: m.setattr(leases, "shortest_left_ms", late)),
    ("a beat now and then", lambda m: m.setattr(leases, "beat_every_ms", late)),
]


def test_leases_that_go_on_without_brokers_keep_the_decision() -> None:
    """In every outage that is drawn."""
    draw_outages()


@pytest.mark.parametrize("doctor", [w[1] for w in WRONG], ids=[w[0] for w in WRONG])
def test_a_lease_that_proves_too_much_is_found(
    monkeypatch: pytest.MonkeyPatch, doctor: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """Each part of the decision, a little wrong."""
    doctor(monkeypatch)
    with pytest.raises(InvariantViolated, match="on-time"):
        draw_outages()


def test_a_record_that_lacks_a_field_says_what_the_documents_mean() -> None:
    """As a release writes it that doesn't know the field."""
    lacking.judge_lacking()


def test_a_field_that_is_read_as_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a job, its bounds, a host, and whatever a group holds."""

    def job(value: Any) -> Any:
        return replace(job_from_json(value), next_epoch=2)

    def bounds(value: Any) -> Any:
        return replace(job_from_json(value), limits=Limits(max_standbys=5))

    def host(value: Any) -> Any:
        return replace(host_from_json(value), registered=False)

    def group(value: Any) -> Any:
        found = group_from_json(value)
        members = {pid: replace(p, wanted=False) for pid, p in found.processors.items()}
        return replace(found, processors=members)

    for name, reader, field in (
        ("job_from_json", job, "job without next_epoch"),
        ("job_from_json", bounds, "limits without max_standbys"),
        ("host_from_json", host, "host without registered"),
        ("group_from_json", group, "processor without wanted"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(lacking, name, reader)
            with pytest.raises(InvariantViolated, match=f"records-restore: a {field}"):
                lacking.judge_lacking()


def test_bounds_of_a_job_without_settings_are_those_of_its_coordinator() -> None:
    """The table is the one that `docs/settings.md` is held against, too."""
    from samza_dagster.coordinator.limits import limits_of

    plain = limits_of({})
    assert {name: getattr(plain, name) for name in lacking.BOUNDS} == lacking.BOUNDS


def test_bounds_that_are_others_before_the_first_deployment_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job that nobody has deployed yet has them, too."""
    monkeypatch.setattr(
        lacking, "Limits", lambda: SimpleNamespace(**lacking.BOUNDS | {"retry_count": 7})
    )
    with pytest.raises(InvariantViolated, match="retry_count is read as 7"):
        lacking.judge_lacking()
