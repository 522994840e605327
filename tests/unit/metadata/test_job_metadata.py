"""What the recorded stream says about its job, against what that job's AM served over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from samza_dagster.errors import MalformedRecord
from samza_dagster.metadata import (
    Author,
    JobMetadata,
    StreamRecord,
    job_model_records,
)
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.model import JobModel
from tests.rig.memory_store import MemoryMetadataStore
from tests.rig.stream_model import job_model, write

pytestmark = pytest.mark.unit

WIRE = Path(__file__).parents[2] / "data" / "wire"
AUTHOR = Author("127.0.0.13", "root", 7)


@pytest.fixture(scope="module")
def recorded() -> MemoryMetadataStore:
    store = MemoryMetadataStore()
    for line in (WIRE / "coordinator-stream.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        key = stream.decode_key(record["key"].encode(), topic="t", offset=record["o"])
        value = record["value"]
        if value is None:
            store.remove(key.namespace, key.key)
        else:
            store.put(key.namespace, key.key, value.encode())
    return store


@pytest.fixture(scope="module")
def served() -> JobModel:
    return JobModel.from_json((WIRE / "jobmodel.json").read_bytes())


def as_sets(model: JobModel) -> object:
    wire = model.to_wire()
    for container in wire["containers"].values():
        for task in container["tasks"].values():
            task["system-stream-partitions"].sort(key=str)
    return wire


def test_locality_is_what_the_am_served(recorded: MemoryMetadataStore) -> None:
    """Processor by processor."""
    expected = json.loads((WIRE / "locality.json").read_text(encoding="utf-8"))
    assert JobMetadata(recorded).locality().to_wire() == expected


def test_the_job_model_of_the_stream_is_the_one_that_was_served(
    recorded: MemoryMetadataStore, served: JobModel
) -> None:
    """Rebuilt from the single records, all but the AM's URL in the config: so tests may judge by it."""
    model = job_model(recorded)
    assert {k: v for k, v in model.config.items() if k != "yarn.am.tracking.url"} == served.config
    assert as_sets(model.model_copy(update={"config": served.config})) == as_sets(served)


def test_an_empty_stream_is_a_job_that_was_never_deployed() -> None:
    """Nothing is made up."""
    job = JobMetadata(MemoryMetadataStore())
    assert job.owner() == job.changelog_partitions() == {}
    assert job.locality().processor_localities == {}


def test_what_we_write_for_a_job_model_is_what_samza_wrote(
    recorded: MemoryMetadataStore, served: JobModel
) -> None:
    """Same keys, byte for byte, and the same values, against the recorded records of that job."""
    records = job_model_records(served, AUTHOR, deployment_id="1795264662180-8201457e")
    ours = {(r.namespace, r.key): values(r.value) for r in records}
    samzas = {
        (namespace, key): values(value)
        for namespace in recorded.whole()
        if namespace.startswith("set-") and namespace != stream.SET_CONTAINER_HOST
        for key, value in recorded.all(namespace).items()
        if key != "yarn.am.tracking.url"
    }
    assert ours == samzas


def values(data: bytes | None) -> dict[str, object]:
    assert data is not None
    found: dict[str, object] = json.loads(data)["values"]
    if "taskNames" in found:
        found["taskNames"] = sorted(json.loads(str(found["taskNames"])))
    return found


def test_what_we_write_reads_back(served: JobModel) -> None:
    """Deployment, config and model; sources as Samza's writers name themselves."""
    store = MemoryMetadataStore()
    write(store, job_model_records(served, AUTHOR, deployment_id="run-2"))
    assert as_sets(job_model(store)) == as_sets(
        served.model_copy(update={"config": {**served.config, "app.run.id": "run-2"}})
    )
    config = stream.decode_envelope(store.all(stream.SET_CONFIG)["job.name"])
    task = stream.decode_envelope(store.all(stream.SET_TASK_MODE)["Partition 0"])
    assert (config.source, task.source) == ("job-runner", "SamzaContainer")


def test_what_an_older_model_left_is_deleted(served: JobModel) -> None:
    """Settings, tasks and partitions that are gone; locality and the AM's URL stay."""
    store = MemoryMetadataStore()
    job = JobMetadata(store)
    write(store, job_model_records(served, AUTHOR, deployment_id="run-1"))
    write(
        store,
        [
            stream.set_config(AUTHOR, "yarn.am.tracking.url", "http://h:1/"),
            stream.set_container_host(AUTHOR, "1", "host-1"),
        ],
    )
    containers = {"0": served.containers["0"]}
    config = {k: v for k, v in served.config.items() if k != "job.name"}
    smaller = JobModel(config=config, containers=containers)
    records = job_model_records(smaller, AUTHOR, deployment_id="run-2")
    gone = job.obsolete(records)
    assert all(record.value is None for record in gone)
    write(store, [*records, *gone])
    left = job_model(store)
    assert set(left.containers) == {"0"}
    assert "job.name" not in left.config
    assert left.config["yarn.am.tracking.url"] == "http://h:1/"
    assert job.locality().host_of("1") == "host-1"
    assert job.obsolete(records) == ()


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (
            StreamRecord(stream.SET_CONTAINER_HOST, "0", b"nope"),
            "set-container-host-assignment, key 0: no JSON",
        ),
        (
            StreamRecord(stream.SET_CHANGELOG, "t", b'{"values":{"Partition":"x"}}'),
            "set-changelog, key t: field values.Partition: 'x'",
        ),
    ],
)
def test_a_bad_record_is_named(record: StreamRecord, what: str) -> None:
    """By namespace, key and field."""
    store = MemoryMetadataStore()
    write(store, [record])
    job = JobMetadata(store)
    read = (
        job.locality if record.namespace == stream.SET_CONTAINER_HOST else job.changelog_partitions
    )
    with pytest.raises(MalformedRecord, match=what):
        read()
