"""Runs one real container once, so that all later ones start from its class archive."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from samza_dagster.coordinator.fencing.broker_fence import BrokerFence
from samza_dagster.coordinator.fencing.principals import Principals
from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.errors import ActionFailed, DeadlineExceeded, SamzaDagsterError
from samza_dagster.interrupts import interrupts_deferred
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.model import JobModel
from samza_dagster.sandbox import demo_job, kafka_client, process
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.class_archive import ClassArchive
from samza_dagster.sandbox.launch import ContainerClasses
from samza_dagster.sandbox.logins import LoginFiles
from samza_dagster.sandbox.ports import LOOPBACK
from samza_dagster.sandbox.process import ProcessRecord
from samza_dagster.sandbox.progress import Phases

_RECORDS = 200
_PROCESSED_S = 120.0
_ABORT_S = 5.0
_EXECUTION_ID = "warm-up"


class JobModelServer:
    """Serves one JobModel as a coordinator would; answers every heartbeat with `alive`."""

    def __init__(self, job_model: JobModel) -> None:
        self._job_model = job_model.to_json().encode()
        answer = self._answer

        class MasterPage(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = answer(self.path)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
                return

        self._server = ThreadingHTTPServer((LOOPBACK, 0), MasterPage)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Return the URL, with the final slash that Samza needs."""
        return f"http://{LOOPBACK}:{self._server.server_address[1]}/"

    def _answer(self, path: str) -> bytes:
        if path.startswith("/containerHeartbeat"):
            return b'{"alive":true}'
        if path.startswith("/locality"):
            return b'{"processor-localities":{}}'
        return self._job_model

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def ensure_container_archive(
    directory: Path, on_start: Callable[[ProcessRecord], None] = lambda _: None
) -> ClassArchive:
    """Return the archive; build it first if needed: a broker, one container, 200 records.

    Works in `directory`, which is removed before and after. `on_start` gets each started process.
    Raises `DeadlineExceeded` when the container processed nothing in two minutes, and as
    `Broker.start` does.
    """
    classes = ContainerClasses.of_now()
    archive = classes.archive
    if archive.exists:
        return archive
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    broker = Broker(directory / "broker", authorizer=True, on_spawn=on_start)
    try:
        broker.start()
        draft = directory / "classes.jsa"
        template = classes.template(
            archive.write_options(draft),
            hosts_file=str(directory / "hosts"),
            temporary=str(directory),
        )
        if _run_container(broker, directory, template, on_start):
            archive.accept(draft)
    finally:
        broker.close()
        shutil.rmtree(directory, ignore_errors=True)
    return archive


@contextlib.contextmanager
def build_archive_beside(
    directory: Path, on_start: Callable[[ProcessRecord], None], phases: Phases
) -> Generator[None]:
    """Build a missing archive beside the block; a failure only costs time.

    Works in `directory`. `on_start` gets each started process; all of them end with a block that
    fails.
    """
    if ContainerClasses.of_now().archive.exists:
        yield
        return
    failure: list[str] = []
    started: list[ProcessRecord] = []
    aborted = threading.Event()

    def note(record: ProcessRecord) -> None:
        on_start(record)
        started.append(record)
        if aborted.is_set():  # started while the rest was being ended
            record.stop(grace_s=0.0)
            raise ActionFailed("build the class archive", seen="the sandbox ends")

    def build() -> None:
        try:
            ensure_container_archive(directory, note)
        except SamzaDagsterError as error:
            failure.append(str(error))

    builder = threading.Thread(target=build, daemon=True)
    builder.start()
    try:
        yield
        with phases.phase("class archive (once)") as tell:
            builder.join()
            if failure:
                tell(f"not built, containers start slower: {failure[0]}")
    except BaseException:
        aborted.set()
        with interrupts_deferred():
            process.stop_all(started, grace_s=0.0)
            builder.join(_ABORT_S)
        raise


def _run_container(
    broker: Broker,
    directory: Path,
    template: LaunchTemplate,
    on_start: Callable[[ProcessRecord], None],
) -> bool:
    """Return True when the container processed records and then ended by itself."""
    bootstrap_servers = broker.bootstrap_servers
    demo_job.make_all(bootstrap_servers, actives=1)
    _produce(bootstrap_servers)
    (directory / "hosts").write_text(f"{LOOPBACK} localhost {os.uname().nodename}\n")
    server = JobModelServer(_with_login(broker, directory))
    log = directory / "container.log"
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ},
        "SAMZA_CONTAINER_ID": "0",
        "SAMZA_COORDINATOR_URL": server.url,
        "EXECUTION_ENV_CONTAINER_ID": _EXECUTION_ID,
        "LOGGED_STORE_BASE_DIR": str(directory / "state"),
    }
    container = process.spawn(
        "warm-up container",
        template.command,
        log=log,
        environment=environment,
        directory=directory,
        on_spawn=on_start,
    )
    try:
        _wait_for_output(bootstrap_servers, container, time.monotonic() + _PROCESSED_S, log)
        return container.stop(grace_s=60.0)
    finally:
        container.stop(grace_s=0.0)
        server.close()


def _with_login(broker: Broker, directory: Path) -> JobModel:
    """Return the JobModel of a container that logs in, as those of a sandbox do."""
    logins = LoginFiles(directory / "logins").create(broker)
    plain = demo_job.job_model(broker.bootstrap_servers, actives=1, standbys=0)
    principals = Principals.of({**plain.config, **logins.config()})
    assert principals is not None  # the logins' config asks for them
    fence = BrokerFence.at(
        principals, KafkaCluster(broker.bootstrap_servers), fenced=lambda _: None
    )
    fence.admit(_EXECUTION_ID)
    name, text = principals.login_file(_EXECUTION_ID)
    (directory / name).write_text(text)
    config = ContainerClasses.of_now().config({**plain.config, **logins.config()})
    config = principals.container_config(config)
    return plain.model_copy(update={"config": config})


def _produce(bootstrap_servers: str) -> None:
    with contextlib.closing(kafka_client.producer(bootstrap_servers)) as producer:
        for number in range(_RECORDS):
            for part in range(demo_job.PARTS):
                producer.produce(
                    demo_job.INPUT_TOPIC,
                    key=f"key {number}",
                    value=f"0-Partition {part}",
                    partition=number % demo_job.TASKS_PER_CONTAINER,
                )
        producer.flush(30)
        producer.purge()  # else `close` waits until the broker has the rest


def _wait_for_output(
    bootstrap_servers: str, container: ProcessRecord, deadline: float, log: Path
) -> None:
    consumer = kafka_client.consumer(bootstrap_servers)
    try:
        while time.monotonic() < deadline and container.is_alive:
            if sum(kafka_client.end_offsets(consumer, demo_job.OUTPUT_TOPIC)) >= _RECORDS:
                return
            container.wait(0.2)
    finally:
        consumer.close()
    raise DeadlineExceeded("run a container once", seen=process.log_tail(log))
