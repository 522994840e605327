"""The component from YAML, what `definitions.py` loads, and what loading it costs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from samza_dagster import SamzaJobComponent
from samza_dagster.errors import InvalidInput
from samza_dagster.orchestration.bounce import ScheduledBounce
from samza_dagster.orchestration.bounds import Within
from samza_dagster.orchestration.component import TYPE
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.watch.settings import AutoFailover, Invariants, LagSlo

pytestmark = pytest.mark.dagster
ROOT = Path(__file__).resolve().parents[2]
NAMED: dict[str, Any] = {"bootstrap_servers": "here:9092", "app_name": "wordcount"}
YAML = """
type: samza_dagster.SamzaJobComponent
attributes:
  bootstrap_servers: "{{ env('TEST_SERVERS', 'fallback:9092') }}"
  app_name: wordcount
  app_id: "{{ env('TEST_JOB_ID', '7') }}"
  client_config: {security.protocol: SASL_SSL, socket.timeout.ms: 5000}
  client_config_env: {sasl.password: TEST_SASL_PASSWORD}
  hosts: [host-1, host-2]
  policies: {timeout_s: 42, sensor_interval_s: 30, lag_limit: 5}
"""
MEASURE = """
import json, sys, time
start = time.process_time()
import dagster, dagster.components, jinja2  # jinja2: a template in any component's YAML
imported = time.process_time()
import definitions
definitions.defs.get_repository_def()
loaded = time.process_time()
late = ("pyspark", "dagster_pyspark")
heavy = [m for m in late if m in sys.modules]
print(json.dumps({"dagster": imported - start, "ours": loaded - imported, "heavy": heavy}))
"""


def component(tmp_path: Path, text: str = YAML) -> SamzaJobComponent:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    return SamzaJobComponent.from_file(path)


def test_values_come_from_the_environment_with_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same YAML serves every environment."""
    assert component(tmp_path).bootstrap_servers == "fallback:9092"
    monkeypatch.setenv("TEST_SERVERS", "broker-1:9092")
    made = component(tmp_path)
    assert made.bootstrap_servers == "broker-1:9092"
    assert made.job == "wordcount/7"


def test_attributes_reach_resources_and_sensor(tmp_path: Path) -> None:
    """Connection, policies and interval as written."""
    made = component(tmp_path)
    definitions = dg.build_defs_for_component(made)
    resources = made.build_resources()
    samza, policies = resources["samza"], resources["samza_policies"]
    assert isinstance(samza, SamzaClientResource)
    assert isinstance(policies, PlacementPolicies)
    assert samza.client_config == {"security.protocol": "SASL_SSL", "socket.timeout.ms": "5000"}
    assert (policies.timeout_s, policies.lag_limit) == (42, 5)
    assert samza.hosts == ["host-1", "host-2"]
    assert definitions.resolve_sensor_def("placement_responses").minimum_interval_seconds == 29


SETTINGS = {
    "policies": PlacementPolicies,
    "auto_failover": AutoFailover,
    "lag_slo": LagSlo,
    "invariants": Invariants,
}
NUMBERS = [
    (part, name, "float" if "float" in str(field.annotation) else "int", within)
    for part, model in SETTINGS.items()
    for name, field in model.model_fields.items()
    for within in field.metadata
    if isinstance(within, Within)
]


def test_every_number_is_known_to_have_bounds() -> None:
    """Those of `Field` refuse templates, and a number without any takes nonsense."""
    bounded = {(part, name) for part, name, _, _ in NUMBERS}
    numbers = {
        (part, name)
        for part, model in SETTINGS.items()
        for name, field in model.model_fields.items()
        if field.annotation in (int, float, int | None, float | None)
    }
    assert bounded == numbers


def test_every_number_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As YAML tells secrets and addresses; the number is the one that is there."""
    attributes: dict[str, dict[str, str]] = {part: {} for part in SETTINGS}
    wanted: dict[tuple[str, str], float] = {}
    for part, name, kind, within in NUMBERS:
        variable = f"TEST_{part}_{name}"
        wanted[part, name] = 0.5 if within.most == 1 else max(50, within.least or 0)
        monkeypatch.setenv(variable, str(wanted[part, name]))
        attributes[part][name] = f"{{{{ env('{variable}') | {kind} }}}}"
    made = component(tmp_path, yaml.safe_dump({"type": TYPE, "attributes": NAMED | attributes}))
    assert {at: getattr(getattr(made, at[0]), at[1]) for at in wanted} == wanted


@pytest.mark.parametrize(("part", "name", "kind", "within"), NUMBERS)
def test_every_number_is_refused_out_of_its_bounds(
    tmp_path: Path, part: str, name: str, kind: str, within: Within
) -> None:
    """Also the one that a template gives; the error names the field and the bounds."""
    lowest = within.above if within.above is not None else within.least
    assert lowest is not None
    bad = [lowest - 1] + ([within.most + 1] if within.most is not None else [])
    for number in bad:
        for given in (number, f"{{{{ '{number}' | {kind} }}}}"):
            attributes: dict[str, Any] = NAMED | {part: {name: given}}
            text = yaml.safe_dump({"type": TYPE, "attributes": attributes})
            with pytest.raises(InvalidInput, match=rf"{name}.*{number:,}.* is out of bounds: "):
                component(tmp_path, text)


def test_secrets_are_read_from_the_environment_when_a_client_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The definitions, which the UI shows, hold the variable's name alone."""
    samza = component(tmp_path).build_resources()["samza"]
    assert "hunter2" not in repr(samza)
    with pytest.raises(InvalidInput, match="TEST_SASL_PASSWORD is not set"):
        samza.settings()
    monkeypatch.setenv("TEST_SASL_PASSWORD", "hunter2")
    assert samza.settings()["sasl.password"] == "hunter2"


SECRETS = (
    "sasl.password",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.key.pem",
    "sasl.jaas.config",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
)


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_in_plain_config_is_refused_when_it_is_loaded(tmp_path: Path, name: str) -> None:
    """The UI shows what definitions hold: the error names the field and its form, not the value."""
    plain = YAML.replace("socket.timeout.ms: 5000", f"{name}: hunter2")
    with pytest.raises(InvalidInput) as refused:
        component(tmp_path, plain)
    told = str(refused.value)
    assert f"client_config setting {name}" in told
    assert f"client_config_env: {{{name}: NAME_OF_AN_ENVIRONMENT_VARIABLE}}" in told
    assert "hunter2" not in told


def test_a_resource_made_in_python_takes_no_plain_secret_either() -> None:
    """It is shown just so."""
    with pytest.raises(InvalidInput, match="client_config_env") as refused:
        SamzaClientResource(
            bootstrap_servers="x:1", job_name="j", client_config={"sasl.password": "hunter2"}
        )
    assert "hunter2" not in str(refused.value)


def test_settings_about_secrets_that_are_none_may_be_plain() -> None:
    """Where a token or a key is found is no secret."""
    plain = {"sasl.oauthbearer.token.endpoint.url": "https://id.example", "ssl.key.location": "/k"}
    made = SamzaClientResource(bootstrap_servers="x:1", job_name="j", client_config=plain)
    assert made.settings() == plain


def test_another_component_s_file_is_refused(tmp_path: Path) -> None:
    """The file names its component as a `defs.yaml` does."""
    with pytest.raises(InvalidInput, match=r"type: samza_dagster\.SamzaJobComponent"):
        component(tmp_path, "type: other.Component\nattributes: {}\n")


def project(root: Path, defs: dict[str, str]) -> dg.Definitions:
    """What Dagster finds in a project of its own layout: folder → its `defs.yaml`."""
    package = root / f"project_{root.name}"  # Python keeps modules by name
    for folder, text in defs.items():
        (package / "defs" / folder).mkdir(parents=True)
        (package / "defs" / folder / "defs.yaml").write_text(text)
    for directory in (package, package / "defs"):
        (directory / "__init__.py").touch()
    (root / "pyproject.toml").write_text(
        f'[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "{package.name}"\n'
    )
    sys.path.insert(0, str(root))
    try:
        return dg.load_from_defs_folder(path_within_project=package / "defs")
    finally:
        sys.path.remove(str(root))


def jobs_of_a_project(root: Path, defs: dict[str, str]) -> set[str]:
    """The names of the jobs in it."""
    return {job.name for job in project(root, defs).get_repository_def().get_all_jobs()}


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")  # owners of sensors
def test_a_project_gives_its_assets_owners_and_tags(tmp_path: Path) -> None:
    """By Dagster's own `post_processing`, as those of any component."""
    given = {"owners": ["team:streams"], "tags": {"tier": "gold"}}
    owned = {"post_processing": {"assets": [{"target": "*", "attributes": given}]}}
    found = project(tmp_path, {"job": f"{YAML}{yaml.safe_dump(owned)}"}).resolve_all_asset_specs()
    assert "placement_history" in {spec.key.to_user_string() for spec in found}
    assert {tuple(spec.owners) for spec in found} == {("team:streams",)}
    assert {spec.tags["tier"] for spec in found} == {"gold"}


def test_a_defs_folder_resolves_the_component_by_its_name(tmp_path: Path) -> None:
    """`type: samza_dagster.SamzaJobComponent` works in Dagster's own project layout."""
    assert {"move_with_standby", "snapshot_assets"} <= jobs_of_a_project(tmp_path, {"job": YAML})


@pytest.mark.longdagster
def test_a_defs_folder_holds_several_jobs(tmp_path: Path) -> None:
    """A folder for each."""
    name = "app_name: wordcount"
    jobs = {job: YAML.replace(name, f"app_name: {job}\n  prefix: {job}") for job in ("a", "b")}
    found = jobs_of_a_project(tmp_path, jobs)
    assert {"a_rolling_bounce", "b_rolling_bounce"} <= found
    assert "rolling_bounce" not in found


def three_jobs() -> dg.RepositoryDefinition:
    """Three jobs on three clusters in one code location; one of them has no prefix."""
    nightly = [ScheduledBounce(name="nightly", cron="0 2 * * *")]
    made = (
        SamzaJobComponent(bootstrap_servers=cluster, app_name=name, prefix=prefix, bounces=nightly)
        for cluster, name, prefix in (
            ("east:9092", "orders", "orders"),
            ("west:9092", "billing", "billing"),
            ("north:9092", "wordcount", ""),
        )
    )
    return dg.Definitions.merge(*map(dg.build_defs_for_component, made)).get_repository_def()


def test_several_jobs_live_in_one_code_location() -> None:
    """Every name is there three times: plain and behind each prefix."""
    jobs = three_jobs()
    for names in (
        {job.name for job in jobs.get_all_jobs()} - {"__ASSET_JOB"},
        {sensor.name for sensor in jobs.sensor_defs},
        {schedule.name for schedule in jobs.schedule_defs},
    ):
        plain = {name for name in names if not name.startswith(("orders_", "billing_"))}
        assert plain
        assert names == plain | {f"{p}_{name}" for p in ("orders", "billing") for name in plain}
    keys = {key.to_user_string() for key in jobs.asset_graph.get_all_asset_keys()}
    assert {"placement_history", "orders/placement_history", "billing/changelog_lag"} <= keys
    launched = {t.job_name for s in jobs.sensor_defs for t in s.targets}
    assert {"fail_over", "orders_move_with_standby", "billing_restart_container"} <= launched
    schedule = jobs.get_schedule_def("orders_bounce_nightly")
    assert schedule.job_name == "orders_rolling_bounce"


def test_a_prefix_that_is_no_name_is_refused(tmp_path: Path) -> None:
    """Dagster's names have letters, digits and underscores."""
    text = YAML.replace("app_name: wordcount", "app_name: wordcount\n  prefix: a-b")
    with pytest.raises(InvalidInput, match=r"prefix.*letters, digits and underscores"):
        component(tmp_path, text)


def test_build_methods_can_be_overridden() -> None:
    """A subclass changes one part and keeps the rest."""

    class Quiet(SamzaJobComponent):
        def build_sensors(self) -> list[dg.SensorDefinition]:
            return []

    made = Quiet(bootstrap_servers="here:9092", app_name="demo")
    definitions = dg.build_defs_for_component(made)
    assert list(definitions.sensors or []) == []
    assert definitions.get_job_def("move_container").tags["samza/job"] == "demo/1"


@pytest.mark.longdagster
def test_definitions_load_in_no_more_than_dagsters_own_time_and_import_nothing_heavy() -> None:
    """Every run's start pays for what `definitions.py` imports: no more than for Dagster itself.

    Processor time of both in one process, so that the machine's speed doesn't count; the
    better of two.
    """
    runs = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", MEASURE],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for _ in range(2)
    ]
    assert [run["heavy"] for run in runs] == [[], []]
    assert min(run["ours"] / run["dagster"] for run in runs) <= 1, runs


def test_importing_the_package_imports_no_dagster() -> None:
    """The command line and the agent start without it, and a program of one's own with the client."""
    code = (
        "import samza_dagster, sys; samza_dagster.PlacementClient; print('dagster' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_the_workspace_points_at_the_definitions() -> None:
    """What `dagster dev -w workspace.yaml` finds."""
    (entry,) = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    assert (ROOT / entry["python_file"]["relative_path"]).is_file()


def test_what_the_yaml_leaves_out_the_environment_and_the_file_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As for the commands; a value of the YAML wins, and a job that it names keeps its own id."""
    file = tmp_path / "config.toml"
    file.write_text(
        'job_name = "from-file"\njob_id = 9\nyarn_resource_manager = "http://rm:8088"\n'
    )
    monkeypatch.setenv("SAMZA_DAGSTER_CONFIG_FILE", str(file))
    monkeypatch.setenv("SAMZA_DAGSTER_BOOTSTRAP_SERVERS", "environment:9092")
    bare = SamzaJobComponent()
    assert (bare.bootstrap_servers, bare.job) == ("environment:9092", "from-file/9")
    assert bare.yarn_resource_manager == "http://rm:8088"
    assert SamzaJobComponent(**NAMED).bootstrap_servers == "here:9092"
    assert SamzaJobComponent(**NAMED).job == "wordcount/1"
    assert SamzaJobComponent(bootstrap_servers="h:1", jobs=["orders-*/*"]).app_name == ""


def test_a_login_of_the_environments_file_counts_where_the_yaml_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    login = tmp_path / "client.properties"
    login.write_text("security.protocol=SSL\n")
    monkeypatch.setenv("SAMZA_DAGSTER_CLIENT_CONFIG", str(login))
    samza = SamzaClientResource(bootstrap_servers="h:1", job_name="j")
    assert samza.settings() == {"security.protocol": "SSL"}
    own = SamzaClientResource(
        bootstrap_servers="h:1", job_name="j", client_config={"client.id": "x"}
    )
    assert own.settings() == {"client.id": "x"}


def test_without_brokers_anywhere_the_component_says_how_to_name_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("SAMZA_DAGSTER_BOOTSTRAP_SERVERS", raising=False)
    with pytest.raises(InvalidInput, match="SAMZA_DAGSTER_BOOTSTRAP_SERVERS"):
        SamzaJobComponent(app_name="wordcount")


def test_a_project_keeps_an_executor_and_a_resource_of_its_own(tmp_path: Path) -> None:
    """A component brings jobs, sensors, schedules and assets, and nothing of a project's."""

    @dg.asset
    def theirs(pyspark: dg.ResourceParam[str]) -> str:
        return pyspark

    project = dg.Definitions(
        assets=[theirs],
        resources={"pyspark": "their own"},
        executor=dg.multiprocess_executor.configured({"max_concurrent": 3}),
    )
    ours = component(tmp_path).build_defs(dg.ComponentTree.for_test().load_context)
    merged = dg.Definitions.merge(project, ours)
    assert merged.executor is project.executor
    assert merged.resolve_job_def("move_container").executor_def is dg.in_process_executor
    assert merged.resolve_implicit_global_asset_job_def().executor_def is project.executor


@pytest.mark.parametrize("key", ["requirements", "post_processing", "atributes"])
def test_what_a_file_says_beside_its_attributes_is_refused(tmp_path: Path, key: str) -> None:
    """Dagster heeds it in a project's `defs.yaml`; here it was passed over."""
    with pytest.raises(InvalidInput, match=key):
        component(tmp_path, f"{YAML}\n{key}: {{}}\n")


def test_dagster_knows_the_component_by_its_tags() -> None:
    """For whoever looks through the kinds that an environment has."""
    assert "samza" in (SamzaJobComponent.get_spec().tags or ())
