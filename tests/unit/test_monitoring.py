"""Dashboard and alert rules hold to the metrics that there are, and each alert has its paragraph."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from rpds import HashTrieMap

from samza_dagster.agent import metrics as agent_metrics
from samza_dagster.cli.main import cli
from samza_dagster.cli.monitoring import FILES, content
from samza_dagster.coordinator.metrics import JobMetrics, render
from samza_dagster.placement.state import Group, Incarnation, JobState, Lag, Phase, Processor, Role
from samza_dagster.standalone.group import GroupView, Member
from samza_dagster.standalone.metrics import Seen, metrics_of
from samza_dagster.standalone.processor import ProcessorState, Settings
from samza_dagster.standalone.work import ProcessorWork
from tests.unit.agent.test_agent_link import linked

pytestmark = pytest.mark.unit
RUNBOOK = Path("docs/operations/monitoring.md")
OURS = re.compile(r"(samza_dagster_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPED = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
PLACEHOLDER = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")
OF_PROMETHEUS = {"instance"}
"""Labels that every series has by being scraped."""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Sample → its labels, as coordinator, agent and standalone processor tell them."""
    standby = Processor("0-0", Role.STANDBY, Phase.RUNNING, Incarnation(1, "e", "h", "r"))
    state = JobState(
        "j-1",
        groups=HashTrieMap({"0": Group("0", HashTrieMap({"0-0": standby}))}),
        lags=HashTrieMap({"0-0": Lag("0-0", 12, 500, 0)}),
    )
    pages = [render(JobMetrics(state, {}, leader_epoch=1, now_ms=0))]
    supervisor, link = linked(tmp_path_factory.mktemp("agent"))
    link.heard_at = 0.0
    supervisor.lease.left_s = lambda: 5.0  # type: ignore[method-assign]
    pages.append(
        agent_metrics.render(
            {"host": "h"}, agent_metrics.metrics_of(agent_metrics.seen(supervisor, link))
        )
    )
    member = Member("0000000000", "p1", "h")
    work = ProcessorWork(silent_ms=0)
    processor = ProcessorState("p1", "h", Settings(), 0, work=work, counted=(member,))
    seen = Seen(processor, GroupView((member,)), 0)
    pages.append(agent_metrics.render({"job": "j-1", "processor": "p1"}, metrics_of(seen, 0.0)))
    return {
        sample.name: set(sample.labels)
        for page in pages
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(content("samza_dagster_alerts.yml"))["groups"]
    return group["rules"]


def queries() -> Iterator[tuple[str, str]]:
    """Every expression, and the text that shows labels of its result."""
    for rule in rules():
        yield rule["expr"], " ".join(rule["annotations"].values())
    dashboard = json.loads(content("samza_dagster_dashboard.json"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"], ""


def test_every_metric_that_is_asked_for_is_told_with_those_labels(
    exported: dict[str, set[str]],
) -> None:
    asked: set[str] = set()
    for expression, shown in queries():
        used = OURS.findall(re.sub(r'up{job="\w+"}', "", expression))
        labels: set[str] = set(OF_PROMETHEUS)
        for name, matchers in used:
            assert name in exported, f"{name} in {expression}"
            assert set(MATCHER.findall(matchers)) <= exported[name], expression
            labels |= exported[name]
            asked.add(name)
        grouped = {one.strip() for found in GROUPED.findall(expression) for one in found.split(",")}
        assert grouped <= labels, expression
        placeholders = set(PLACEHOLDER.findall(shown)) - {"value"}
        assert placeholders <= labels, shown
    assert len(asked) > 25


def test_every_gauge_is_on_the_dashboard_or_in_an_alert(exported: dict[str, set[str]]) -> None:
    """What nobody looks at needn't be told; what Samza counts keeps its name all the same."""
    asked = " ".join(expression for expression, _ in queries())
    counted = ("_total", "_created")
    unused = {name for name in exported if name not in asked and not name.endswith(counted)}
    assert unused <= {
        "samza_dagster_hosts_alive",
        "samza_dagster_agent_build_info",
        "samza_dagster_agent_memory_bytes",
        "samza_dagster_agent_cores",
        "samza_dagster_agent_free_cores",
        "samza_dagster_agent_leader_epoch",
    }


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_each_alert_says_how_grave_it_is_and_has_a_section_of_the_runbook(
    rule: dict[str, Any],
) -> None:
    """Named as the alert, with what it means and what to do."""
    assert rule["labels"]["severity"] in {"critical", "warning"}
    path, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert (Path(path), anchor) == (RUNBOOK, rule["alert"].lower())
    text = RUNBOOK.read_text(encoding="utf-8")
    section = text.partition(f"\n### {rule['alert']}\n")[2].partition("\n#")[0]
    assert len(section.split()) >= 25


def test_the_runbook_has_no_alert_that_there_isnt() -> None:
    told = re.findall(r"^### (SamzaDagster\w+)$", RUNBOOK.read_text(encoding="utf-8"), re.MULTILINE)
    assert told == [rule["alert"] for rule in rules()]


def test_panels_lie_beside_each_other_and_have_titles() -> None:
    """No two on one place of the grid, which has 24 columns."""
    dashboard = json.loads(content("samza_dagster_dashboard.json"))
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert panel["title"]
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_command_writes_all_of_it(tmp_path: Path) -> None:
    told = CliRunner().invoke(cli, ["monitoring", "write", str(tmp_path / "new"), "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["files"].keys() == FILES.keys()
    for name in FILES:
        assert (tmp_path / "new" / name).read_bytes() == content(name)
    config = yaml.safe_load(content("prometheus.yml"))
    assert config["rule_files"] == ["samza_dagster_alerts.yml"]
    (coordinator, agent, processor) = config["scrape_configs"]
    assert coordinator["honor_labels"] is processor["honor_labels"] is True
    for scraped in (agent, processor):
        assert any(f'up{{job="{scraped["job_name"]}"}}' in rule["expr"] for rule in rules())
