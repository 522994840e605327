"""The README's YAML is one that the component takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from samza_dagster.orchestration.component import SamzaJobComponent

pytestmark = pytest.mark.unit

README = Path(__file__).parents[3] / "README.md"


def test_the_readmes_yaml_makes_a_component(tmp_path: Path) -> None:
    """Copied as it stands into a file, it gives the jobs that the README names."""
    text = README.read_text()
    found = re.search(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    assert found is not None
    file = tmp_path / "job.yaml"
    file.write_text(found.group(1))
    component = SamzaJobComponent.from_file(file)
    assert component.app_name == "my-job"
    assert str(component.app_id) == "1"
