"""The models against what a running Samza 1.8.0 wrote and served. Compared parsed: Samza writes hash maps."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from samza_dagster.errors import MalformedRecord
from samza_dagster.model import (
    ContainerModel,
    JobModel,
    LocalityModel,
    ProcessorLocality,
    ResponseDetails,
    SystemStreamPartition,
    TaskMode,
    TaskModel,
    task_hosts,
)
from samza_dagster.model.placement_messages import parse_request, parse_response

pytestmark = pytest.mark.unit

WIRE = Path(__file__).parents[2] / "data" / "wire"
STREAM = [
    json.loads(line)
    for line in (WIRE / "coordinator-stream.jsonl").read_text(encoding="utf-8").splitlines()
]
PLACEMENT = [
    record for record in STREAM if "samza-place-container-v1" in record["key"] and record["value"]
]
REQUEST = {
    "subType": "ContainerPlacementRequestMessage",
    "uuid": "914b0a7c-ebcd-4999-8099-05299ae8cb4e",
    "deploymentId": "d",
    "processorId": "0",
    "destinationHost": "h",
    "statusCode": "CREATED",
    "timestamp": 1,
}
RESPONSE = {**REQUEST, "subType": "ContainerPlacementResponseMessage", "responseMessage": "m"}
TASK = {
    "task-name": "Partition 0",
    "system-stream-partitions": [{"system": "kafka", "stream": "in", "partition": 0}],
    "changelog-partition": 0,
}


def job_model(container: dict[str, object]) -> str:
    return json.dumps({"config": {}, "containers": {"0": container}})


def test_the_recorded_job_model_survives_a_round_trip() -> None:
    """Nothing that Samza's AM serves is lost, added or renamed."""
    text = (WIRE / "jobmodel.json").read_text(encoding="utf-8")
    model = JobModel.from_json(text)
    assert model.to_wire() == json.loads(text)
    assert json.loads(model.to_json()) == json.loads(text)
    assert model.containers["0-0"].mode is TaskMode.STANDBY
    assert model.containers["0"].mode is TaskMode.ACTIVE


def test_the_recorded_locality_survives_a_round_trip() -> None:
    """All processors, and the one."""
    text = (WIRE / "locality.json").read_text(encoding="utf-8")
    locality = LocalityModel.from_json(text)
    assert locality.to_wire() == json.loads(text)
    one = (WIRE / "locality-one.json").read_text(encoding="utf-8")
    assert ProcessorLocality.from_json(one).to_wire() == json.loads(one)
    hosts = task_hosts(JobModel.from_json((WIRE / "jobmodel.json").read_bytes()), locality)
    assert hosts["Partition 0"] == "nm1"
    assert hosts["Standby-Partition 0-0"] == "nm2"
    assert len(hosts) == 8


@pytest.mark.parametrize("record", PLACEMENT, ids=lambda record: str(record["o"]))
def test_every_recorded_placement_message_survives_a_round_trip(record: dict[str, str]) -> None:
    """127 messages of Samza's AM and of its clients, each with its optional fields or without."""
    parse = parse_request if "RequestMessage" in record["key"] else parse_response
    assert parse(record["value"]).to_wire() == json.loads(record["value"])


def test_what_older_releases_left_out_is_filled_in() -> None:
    """No task-mode: active. No keyBucket: -1, the whole partition."""
    task = (
        JobModel.from_json(job_model({"processor-id": "0", "tasks": {"Partition 0": TASK}}))
        .containers["0"]
        .tasks["Partition 0"]
    )
    assert task.task_mode is TaskMode.ACTIVE
    assert task.system_stream_partitions[0].key_bucket == -1


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ({"container-id": 0}, "0"),
        ({"container-id": "7"}, "7"),
        ({"container-id": 0, "processor-id": "p"}, "p"),
        ({"container-id": 3, "processor-id": None}, "3"),
    ],
)
def test_the_old_container_id_is_accepted(ids: dict[str, object], expected: str) -> None:
    """Instead of the processor id; beside it the processor id wins. Only the new one is written."""
    container = JobModel.from_json(job_model({**ids, "tasks": {}})).containers["0"]
    assert container.processor_id == expected
    assert container.to_wire() == {"processor-id": expected, "tasks": {}}


def test_fields_that_are_absent_stay_absent() -> None:
    """No null, no default for what Samza would not have written."""
    assert "max-change-log-stream-partitions" not in JobModel(config={}, containers={}).to_wire()
    container = ContainerModel(processor_id="0", tasks={}, location_id="rack-1")
    assert set(container.to_wire()) == {"processor-id", "tasks"}
    assert set(parse_request(json.dumps(REQUEST)).to_wire()) == set(REQUEST)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{", "(whole document)"),
        ("[]", "(whole document)"),
        ('{"containers":{}}', "config"),
        ('{"config":{"a":1},"containers":{}}', "config.a"),
        (job_model({"tasks": {}}), "containers.0.processor-id"),
        (job_model({"container-id": None, "tasks": {}}), "containers.0.processor-id"),
        (
            job_model({"processor-id": "0", "tasks": {"t": {**TASK, "task-mode": "Lazy"}}}),
            "containers.0.tasks.t.task-mode",
        ),
        (
            job_model({"processor-id": "0", "tasks": {"t": {"task-name": "t"}}}),
            "containers.0.tasks.t.system-stream-partitions",
        ),
    ],
)
def test_a_bad_job_model_is_refused_by_the_name_of_its_field(text: str, field: str) -> None:
    """The first field that can't be read, by its path on the wire."""
    with pytest.raises(MalformedRecord) as raised:
        JobModel.from_json(text)
    assert f"field {field}:" in raised.value.seen


@pytest.mark.parametrize(
    ("whole", "field", "value"),
    [
        # one that is missing stops a real AM's placement thread, so it is no message
        *((REQUEST, field, None) for field in REQUEST),
        *((RESPONSE, field, None) for field in RESPONSE),
        # also what Samza's reader would quietly take for something else: a number in quotes is 0 there
        (REQUEST, "uuid", "not-a-uuid"),
        (REQUEST, "timestamp", "1"),
        (REQUEST, "timestamp", -1),
        (REQUEST, "timestamp", 2**63),
        (REQUEST, "statusCode", "DONE"),
        (REQUEST, "subType", "ContainerPlacementResponseMessage"),
        (REQUEST, "processorId", 0),
        (REQUEST, "processorId", ""),
        (REQUEST, "destinationHost", "h" * 2000),
        (REQUEST, "requestExpiry", "10"),
    ],
)
def test_a_message_is_refused_by_the_name_of_the_field_that_is_missing_or_bad(
    whole: dict[str, object], field: str, value: object
) -> None:
    """Every field that Samza's reader needs."""
    changed = {key: own for key, own in whole.items() if key != field}
    changed |= {} if value is None else {field: value}
    with pytest.raises(MalformedRecord, match=f"field {field}:"):
        (parse_request if whole is REQUEST else parse_response)(json.dumps(changed))


names = st.text(min_size=1, max_size=20)
partitions = st.builds(
    SystemStreamPartition,
    system=names,
    stream=names,
    partition=st.integers(0, 10_000),
    key_bucket=st.integers(-1, 8),
)
tasks = st.builds(
    TaskModel,
    task_name=names,
    system_stream_partitions=st.lists(partitions, max_size=3).map(tuple),
    changelog_partition=st.integers(0, 1000),
    task_mode=st.sampled_from(TaskMode),
)
containers = st.builds(
    ContainerModel, processor_id=names, tasks=st.dictionaries(names, tasks, max_size=3)
)
job_models = st.builds(
    JobModel,
    config=st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=4),
    containers=st.dictionaries(names, containers, max_size=3),
    max_change_log_stream_partitions=st.none() | st.integers(0, 1000),
)


def test_details_stand_beside_what_samza_reads() -> None:
    """Its reader asks for its own fields by name, and finds them as without details."""
    details = {"stage": "held", "host": "h", "stopped": ["0"]}
    response = parse_response(json.dumps({**RESPONSE, "details": details}))
    assert response.details == ResponseDetails(stage="held", host="h", stopped=("0",))
    assert response.to_wire() == {**RESPONSE, "details": details}
    assert parse_response(json.dumps(RESPONSE)).details is None


@given(job_models)
def test_any_job_model_reads_back_as_it_was_written(model: JobModel) -> None:
    """Whatever the names, config and tasks."""
    assert JobModel.from_json(model.to_json()) == model


@given(st.binary(max_size=200))
@example(b"null")
@example(b"\xff\xfe")
@example(b'"x"')
@example(b"{" * 10_000)
def test_no_bytes_break_a_parser(payload: bytes) -> None:
    """A message or MalformedRecord, nothing else, whatever a stranger writes."""
    for parse in (parse_request, parse_response, JobModel.from_json, LocalityModel.from_json):
        with suppress(MalformedRecord):
            parse(payload)
