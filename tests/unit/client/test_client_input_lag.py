"""How far actives are behind their input, by what a Samza 1.8.0 job committed."""

from __future__ import annotations

import http.server
import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from samza_dagster.client import PlacementClient
from samza_dagster.client.look import host_words, read_host_words
from samza_dagster.client.replica_lag import input_partition
from samza_dagster.client.views import LeaderView
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.model.naming import checkpoint_topic

pytestmark = pytest.mark.unit
TOPIC = checkpoint_topic("yw", "1")


@pytest.fixture
def committed(job: Any) -> Any:
    job.topics.load(TOPIC, "checkpoint-tail.jsonl")
    job.topics.ranges = {("yw-input", n): OffsetRange(0, 66_000) for n in range(4)}
    return job


def test_an_active_is_behind_by_the_records_after_its_newest_commit(committed: Any) -> None:
    """End offset - 1 - the committed one; a changelog in a v1 checkpoint is no input."""
    lags = committed.client().look().input_lags
    assert {lag.topic for lag in lags} == {"yw-input"}
    assert {lag.processor_id for lag in lags} == {"0", "1"}
    first = next(lag for lag in lags if lag.task_name == "Partition 0")
    assert first.lag == 66_000 - 1 - first.committed_offset
    assert first.partition == 0


def test_of_a_key_the_last_record_counts_as_for_samza(committed: Any) -> None:
    """Whatever its time says: a successor's clock may be behind. One without a value hides none."""
    second = b'"taskName":"Partition 0","type":"checkpoint-v2"}'
    records = [r for r in committed.topics.records[TOPIC] if r.key.endswith(second)]
    told = json.loads(records[-1].value)
    told["input-offsets"] = {"kafka.yw-input.0": "65990"}
    early_ms = records[-1].timestamp_ms - 1_000
    records.append(replace(records[-1], value=json.dumps(told).encode(), timestamp_ms=early_ms))
    records.append(replace(records[-1], value=None))
    committed.topics.records[TOPIC] = records
    lags = committed.client().look().input_lags
    (first,) = [lag for lag in lags if lag.task_name == "Partition 0"]
    assert first.committed_offset == 65_990


def test_what_retention_took_is_not_to_be_read(committed: Any) -> None:
    """From the first offset that is left."""
    committed.topics.ranges = {("yw-input", n): OffsetRange(65_990, 66_000) for n in range(4)}
    assert {lag.lag for lag in committed.client().look().input_lags} == {10}


def test_an_input_cut_below_what_was_committed_tells_no_lag(committed: Any) -> None:
    """Deleted and made anew: the commit is of the former one, and 0 looked like an active that keeps up."""
    committed.topics.ranges = {("yw-input", n): OffsetRange(0, 10) for n in range(4)}
    assert {lag.lag for lag in committed.client().look().input_lags} == {None}


def test_without_commits_or_topics_nothing_is_known(job: Any, committed: Any) -> None:
    """Not zero: absent."""
    committed.topics.ranges = {}
    assert committed.client().look().input_lags == ()
    job.topics.records[TOPIC] = []
    assert job.client().look().input_lags == ()


def test_a_look_is_one_reading_of_all(committed: Any) -> None:
    """The same as each alone; over stores without topics the lags are left out."""
    client = committed.client()
    seen = client.look()
    assert (seen.job, seen.lags) == (client.view(), client.lag())
    assert seen.input_lags
    assert seen.host_words == {}
    alone = PlacementClient.over(committed.store, job_name="yw").look()
    assert (alone.lags, alone.input_lags) == ((), ())


def leader(url: str, *, ended: bool = False) -> LeaderView:
    return LeaderView(1, "here", url, 1, 1, ended)


def test_the_leader_s_page_tells_each_host_s_last_word() -> None:
    """Read over HTTP, within a time; what can't be read is no word."""
    page = {"version": 1, "hosts": {"h1": {"silent_ms": 70}, "h2": {"silent_ms": "x"}, "h3": 3}}

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/hosts" else 404)
            self.end_headers()
            self.wfile.write(json.dumps(page).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        assert read_host_words(leader(url)) == {"h1": 70}
        assert read_host_words(leader(url, ended=True)) == {}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert read_host_words(leader(url)) == {}


@pytest.mark.parametrize("url", ["", "file:///etc/passwd", "nonsense"])
def test_only_a_web_address_is_opened(url: str) -> None:
    """The address comes from a topic."""
    assert read_host_words(leader(url)) == {}
    assert read_host_words(None) == {}


@pytest.mark.parametrize(
    "document", [None, [], 3, {}, {"hosts": []}, {"hosts": {"h": {"silent_ms": -1}}}]
)
def test_an_odd_page_tells_nothing(document: object) -> None:
    """Of another release, or of something else that listens there."""
    assert host_words(document) == {}


@pytest.mark.parametrize("partition", ["²", "9" * 5000, "-1", ""])
def test_a_partition_that_is_no_number_is_no_input(partition: str) -> None:
    """A commit that anybody may have written ends no look."""
    assert input_partition(f"kafka.in.{partition}") is None
    assert input_partition("kafka.in.7") == ("in", 7)
