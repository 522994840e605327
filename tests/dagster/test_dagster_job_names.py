"""Which Samza job a component's YAML means: the names and ids as a person wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from samza_dagster import SamzaJobComponent
from samza_dagster.errors import InvalidInput

pytestmark = pytest.mark.dagster


@pytest.fixture(autouse=True)
def _an_environment(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("TEST_ZERO", "0")
    monkeypatch.setenv("TEST_LIKE_A_NUMBER", "12e5")
    monkeypatch.setenv("TEST_JOBS", "zero/0,12e5/010")


def component(tmp_path: Path, *lines: str) -> SamzaJobComponent:
    path = tmp_path / "job.yaml"
    head = "type: samza_dagster.SamzaJobComponent\nattributes:\n  bootstrap_servers: here:9092\n"
    path.write_text(head + "".join(f"  {line}\n" for line in lines))
    return SamzaJobComponent.from_file(path)


ZERO = ["0", "'0'", '"{{ 0 }}"', "\"{{ env('TEST_ZERO') }}\""]


@pytest.mark.parametrize("written", ZERO)
def test_zero_is_an_id_as_any_other(tmp_path: Path, written: str) -> None:
    """It was taken for no id, and the job of id 1 was restarted."""
    made = component(tmp_path, "app_name: orders", f"app_id: {written}")
    assert (made.job, made.build_resources()["samza"].job) == ("orders/0", "orders/0")


@pytest.mark.parametrize("written", ZERO)
def test_zero_is_a_name_as_any_other(tmp_path: Path, written: str) -> None:
    """The environment's job isn't meant where the YAML names one."""
    assert component(tmp_path, f"app_name: {written}", "app_id: '0'").job == "0/0"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('"010"', "010"),
        ("12e5", "12e5"),
        ('"12e5"', "12e5"),
        ("\"{{ env('TEST_LIKE_A_NUMBER') }}\"", "12e5"),
        ('"1.10"', "1.10"),
        ('"0x10"', "0x10"),
        ('"on"', "on"),
        ('"True"', "True"),
        ("7", "7"),
    ],
)
def test_a_text_stays_the_text_that_it_is(tmp_path: Path, written: str, meant: str) -> None:
    """Dagster reads texts as Python does: 12e5 was job 1200000.0, and 1.10 job 1.1."""
    assert component(tmp_path, "app_name: orders", f"app_id: {written}").job == f"orders/{meant}"
    assert component(tmp_path, f"app_name: {written}").job == f"{meant}/1"
    assert component(tmp_path, f"jobs: [{written}]").job == f"{meant}/1"


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("010", "010, which YAML reads as 8"),
        ("1:30", "1:30, which YAML reads as 90"),
        ("0x10", "0x10, which YAML reads as 16"),
        ("1_000", "1_000, which YAML reads as 1000"),
        ("on", "on, which YAML reads as True"),
        ("1.5", "1.5, which is neither"),
        ("5.0", "5.0, which is neither"),
        ("{a: 1}", "{'a': 1}, which is neither"),
        ("null", "None, which is neither"),
        ('"{{ true }}"', "True, which is neither"),
        ('"{{ env.NOT_SET_ANYWHERE }}"', "None, which is neither"),
    ],
)
@pytest.mark.parametrize("field", ["app_name", "app_id", "jobs"])
def test_what_yaml_made_of_a_text_is_refused(
    tmp_path: Path, field: str, written: str, seen: str
) -> None:
    """By its field, what was seen, and the form that is safe; a job of another name was acted on."""
    lines = {"app_name": "orders"} if field == "app_id" else {}
    lines[field] = f"[{written}]" if field == "jobs" else written
    with pytest.raises(InvalidInput) as refused:
        component(tmp_path, *(f"{name}: {text}" for name, text in lines.items()))
    assert field in refused.value.asked
    assert refused.value.seen.startswith(seen)
    assert "quotes" in refused.value.fix


@pytest.mark.parametrize(
    ("written", "meant"), [("0", "orders/0"), ("12e5", "orders/12e5"), ('"010"', "orders/010")]
)
def test_dagsters_own_loading_means_the_same_job(written: str, meant: str) -> None:
    """A `defs.yaml` that Dagster reads itself."""
    text = f"bootstrap_servers: here:9092\napp_name: orders\napp_id: {written}"
    assert SamzaJobComponent.resolve_from_yaml(text).job == meant


def test_dagsters_own_loading_refuses_what_is_no_name() -> None:
    """A yes or no among them; of 010 nothing but 8 reaches it."""
    with pytest.raises(InvalidInput, match="app_id"):
        SamzaJobComponent.resolve_from_yaml(
            "bootstrap_servers: here:9092\napp_name: orders\napp_id: on"
        )


def test_a_component_in_python_takes_a_whole_number() -> None:
    """And nothing else that isn't a text."""
    ident: Any = 0
    assert SamzaJobComponent("here:9092", "orders", ident).job == "orders/0"
    ident = 0.0
    with pytest.raises(InvalidInput, match="app_id"):
        SamzaJobComponent("here:9092", "orders", ident)


@pytest.mark.parametrize(
    ("lines", "seen"),
    [
        (("jobs: [orders, billing]", "app_id: 0"), "app_id '0', and jobs"),
        (("jobs: orders/1",), "'orders/1'"),
        (("jobs: [orders/1/2]",), "3 characters"),
        (("app_name: orders", 'app_id: " 1"'), "2 characters"),
    ],
)
def test_a_name_that_would_be_another_job_s_is_refused(
    tmp_path: Path, lines: tuple[str, ...], seen: str
) -> None:
    """An id beside several jobs counted for none of them."""
    with pytest.raises(InvalidInput) as refused:
        component(tmp_path, *lines)
    assert seen in refused.value.seen


def test_several_jobs_and_patterns_are_as_they_are_written(tmp_path: Path) -> None:
    """Also those that a template gives."""
    assert component(tmp_path, 'jobs: ["7", zero/0, "010/*"]').jobs == ["7/1", "zero/0", "010/*"]
    made = component(tmp_path, "jobs: \"{{ env('TEST_JOBS').split(',') }}\"")
    assert made.jobs == ["zero/0", "12e5/010"]


def test_hosts_processors_and_standbys_are_named_by_quoted_numbers(tmp_path: Path) -> None:
    """Processor 0 in quotes was refused as a number, and there is no other way to write it."""
    made = component(
        tmp_path,
        "app_name: orders",
        'hosts: ["10", "1e5"]',
        'client_config: {sasl.username: "12e5"}',
        'bounces: [{name: sunday, cron: "0 4 * * 0", jobs: ["7"], settings: {only: ["0", "1"]}}]',
        'lag_slo: {objectives: [{standby: "7", store: "0", records: 4}]}',
    )
    samza = made.build_resources()["samza"]
    assert (samza.hosts, samza.client_config) == (["10", "1e5"], {"sasl.username": "12e5"})
    assert (made.bounces[0].jobs, made.bounces[0].settings) == (["7"], {"only": ["0", "1"]})
    assert made.lag_slo.objectives[0].covers("7", "0")
