"""Where a container is under Samza's own AM: its locality comes seconds after SUCCEEDED."""

from __future__ import annotations

import pytest

from samza_dagster.client.stream_reader import StreamReader
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import Author, StreamRecord
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.model import StatusCode
from tests.rig.memory_store import MemoryMetadataStore
from tests.rig.placement_response import response

pytestmark = pytest.mark.unit

MASTER = Author("nm3", "samza", 1_795_264_662_000)
NOW_MS = 1_795_264_700_000


class Stream:
    """A job's coordinator stream as an AM and its containers write it, record by record."""

    def __init__(self) -> None:
        self.store = MemoryMetadataStore()
        self.placement = ContainerPlacementMetadataStore(self.store, now_ms=lambda: NOW_MS)
        self.write(stream.set_config(MASTER, "app.run.id", "run-1"))
        self.write(stream.set_config(MASTER, "job.name", "j"))
        for task, processor in (("Partition 0", "0"), ("Standby-Partition 0-0", "0-0")):
            self.write(stream.set_task_container(MASTER, task, processor))
        self.report("0", "nm1")
        self.report("0-0", "nm2")

    def write(self, record: StreamRecord) -> None:
        assert record.value is not None
        self.store.put(record.namespace, record.key, record.value)

    def report(self, processor_id: str, host: str) -> None:
        """As a container does once it runs."""
        self.write(stream.set_container_host(MASTER, processor_id, host))

    def answer(
        self,
        host: str,
        *,
        asked: str | None = None,
        status: StatusCode = StatusCode.SUCCEEDED,
        deployment_id: str = "run-1",
    ) -> None:
        """To a request for processor 0, in Samza's words."""
        uuid = self.placement.write_request(
            processor_id="0", deployment_id=deployment_id, destination_host=asked or host
        )
        said = "Successfully completed the container placement action started container on host "
        self.placement.write_response(
            response(
                uuid,
                status,
                deployment_id=deployment_id,
                destination_host=asked or host,
                response_message=f"{said}{host}",
                timestamp=NOW_MS,
            )
        )

    @property
    def host(self) -> str | None:
        return StreamReader(self.store).view("j", "1", 0).processors["0"].host


@pytest.fixture
def job() -> Stream:
    return Stream()


def test_a_container_is_where_it_was_started_until_it_reports(job: Stream) -> None:
    """A second move asked in these seconds went out from a host that it had left."""
    job.answer("nm3")
    assert job.host == "nm3"
    job.report("0", "nm3")
    assert job.host == "nm3"


def test_what_it_reports_later_counts(job: Stream) -> None:
    """It died there, and the AM started it elsewhere: no request tells of that."""
    job.answer("nm3")
    job.report("0", "nm4")
    assert job.host == "nm4"


def test_the_newest_of_several_counts(job: Stream) -> None:
    job.answer("nm3")
    job.answer("nm4")
    assert job.host == "nm4"


def test_it_is_on_the_host_that_the_answer_names_and_not_where_it_was_asked_to(job: Stream) -> None:
    """A word is no host; without host affinity the AM echoes what was asked."""
    job.answer("nm3", asked="ANY_HOST")
    assert job.host == "nm3"
    job.answer("nm4", asked="nm1")
    assert job.host == "nm4"


@pytest.mark.parametrize(
    "of", [{"status": StatusCode.IN_PROGRESS}, {"status": StatusCode.FAILED}, {"deployment_id": "run-0"}]
)  # fmt: skip
def test_no_other_answer_moves_it(job: Stream, of: dict[str, object]) -> None:
    """Of an earlier deployment it says where that one's container was."""
    job.answer("nm3", **of)  # pyright: ignore[reportArgumentType]
    assert job.host == "nm1"


def test_where_it_was_last_seen_is_what_it_reported(job: Stream) -> None:
    """`LAST_SEEN` of one that doesn't run goes there, by the AM's own reading."""
    job.answer("nm3")
    view = StreamReader(job.store).view("j", "1", 0)
    assert view.processors["0"].last_seen_host == "nm1"
