"""Where a connection comes from, what is wrong with one, and that it keeps its secrets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from samza_dagster.errors import InvalidInput
from samza_dagster.metadata import Connection, KafkaCluster, KafkaMetadataStore
from samza_dagster.metadata.connection import redacted

pytestmark = pytest.mark.unit

JOB = """
job.name=word-count
job.id=7
job.default.system=kafka
systems.kafka.consumer.bootstrap.servers=a:9092,b:9092
systems.kafka.producer.bootstrap.servers=c:9092
"""


def properties(directory: Path, text: str) -> Path:
    path = directory / "job.properties"
    path.write_text(text, encoding="utf-8")
    return path


def test_from_the_environment(tmp_path: Path) -> None:
    """Servers and name are needed; id 1 unless told; a file adds librdkafka's settings."""
    client = tmp_path / "client.properties"
    client.write_text("security.protocol=SASL_SSL\nsasl.password=s3cret\n", encoding="utf-8")
    found = Connection.from_environment(
        {
            "SAMZA_DAGSTER_BOOTSTRAP_SERVERS": "h:9092",
            "SAMZA_DAGSTER_JOB_NAME": "my_job",
            "SAMZA_DAGSTER_CLIENT_CONFIG": str(client),
        }
    )
    assert found.job_id == "1"
    assert found.client_config == {"security.protocol": "SASL_SSL", "sasl.password": "s3cret"}
    assert found.coordinator_stream_topic == "__samza_coordinator_my-job_1"
    assert found.state_topic == "__samza_dagster_my-job_1"


@pytest.mark.parametrize("name", ["SAMZA_DAGSTER_BOOTSTRAP_SERVERS", "SAMZA_DAGSTER_JOB_NAME"])
def test_a_missing_variable_is_named(name: str) -> None:
    """And so is a file that isn't there."""
    complete = {"SAMZA_DAGSTER_BOOTSTRAP_SERVERS": "h:1", "SAMZA_DAGSTER_JOB_NAME": "j"}
    with pytest.raises(InvalidInput, match=name):
        Connection.from_environment({k: v for k, v in complete.items() if k != name})
    with pytest.raises(InvalidInput, match=r"SAMZA_DAGSTER_CLIENT_CONFIG: read /nowhere"):
        Connection.from_environment({**complete, "SAMZA_DAGSTER_CLIENT_CONFIG": "/nowhere"})


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"bootstrap_servers": "h"}, "bootstrap_servers"),
        ({"bootstrap_servers": "h:1,"}, "bootstrap_servers"),
        ({"bootstrap_servers": "http://h:1"}, "bootstrap_servers"),
        ({"job_name": ""}, "job_name"),
        ({"job_id": " 1"}, "job_id"),
        ({"client_config": {"transactional.id": "x"}}, r"transactional\.id"),
        ({"yarn_resource_manager": "rm:8088"}, "http://host:8088"),
        ({"yarn_resource_manager": "file:///etc/passwd"}, "yarn_resource_manager"),
    ],
)
def test_a_bad_field_is_named(fields: dict[str, object], name: str) -> None:
    """Before anything connects."""
    with pytest.raises(InvalidInput, match=name):
        Connection(**{"bootstrap_servers": "h:1", "job_name": "j", **fields})


def test_where_yarn_is_comes_from_the_environment(tmp_path: Path) -> None:
    """One address or several, beside the job's own properties too."""
    told = {"SAMZA_DAGSTER_YARN_RESOURCE_MANAGER": "http://rm1:8088/, https://rm2:8090"}
    found = Connection.from_properties(properties(tmp_path, JOB), told)
    assert found.resource_managers == ("http://rm1:8088", "https://rm2:8090")
    here = {"SAMZA_DAGSTER_BOOTSTRAP_SERVERS": "h:1", "SAMZA_DAGSTER_JOB_NAME": "j"}
    assert Connection.from_environment({**here, **told}) == replace(
        Connection("h:1", "j"), yarn_resource_manager=found.yarn_resource_manager
    )
    assert Connection.from_environment(here).resource_managers == ()


def test_from_a_samza_job(tmp_path: Path) -> None:
    """The consumer's servers before the producer's, the coordinator's system before the default."""
    found = Connection.from_properties(properties(tmp_path, JOB))
    assert (found.bootstrap_servers, found.job_name, found.job_id) == (
        "a:9092,b:9092",
        "word-count",
        "7",
    )
    other = JOB + "job.coordinator.system=meta\nsystems.meta.producer.bootstrap.servers=m:1\n"
    assert Connection.from_properties(properties(tmp_path, other)).bootstrap_servers == "m:1"
    without_id = JOB.replace("job.id=7", "")
    assert Connection.from_properties(properties(tmp_path, without_id)).job_id == "1"
    with pytest.raises(InvalidInput, match="job_id"):
        Connection.from_properties(properties(tmp_path, JOB.replace("job.id=7", "job.id=")))


def test_security_settings_of_a_samza_job_are_translated(tmp_path: Path) -> None:
    """What Java's client and librdkafka name alike, SCRAM's user, and PEM stores."""
    text = (
        JOB
        + r"""
systems.kafka.consumer.security.protocol=SASL_SSL
systems.kafka.consumer.sasl.mechanism=SCRAM-SHA-256
systems.kafka.consumer.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p\\"w";
systems.kafka.consumer.ssl.truststore.type=PEM
systems.kafka.consumer.ssl.truststore.location=/etc/ca.pem
systems.kafka.producer.security.protocol=PLAINTEXT
"""
    )
    assert Connection.from_properties(properties(tmp_path, text)).client_config == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "u",
        "sasl.password": 'p"w',
        "ssl.ca.location": "/etc/ca.pem",
    }


def test_a_setting_without_a_translation_needs_librdkafkas_own(tmp_path: Path) -> None:
    """A Java key store is refused by name, unless settings of librdkafka's are given."""
    text = JOB + "systems.kafka.consumer.ssl.truststore.location=/etc/ca.jks\n"
    path = properties(tmp_path, text)
    with pytest.raises(InvalidInput, match=r"systems\.kafka\.consumer\.ssl\.truststore\.location"):
        Connection.from_properties(path)
    own = tmp_path / "client.properties"
    own.write_text("ssl.ca.location=/etc/ca.pem\n")
    found = Connection.from_properties(path, {"SAMZA_DAGSTER_CLIENT_CONFIG": str(own)})
    assert found.client_config == {"ssl.ca.location": "/etc/ca.pem"}


@pytest.mark.parametrize("name", ["job.name", "job.default.system", "systems.kafka"])
def test_a_missing_property_is_named(tmp_path: Path, name: str) -> None:
    """The line to add is the fix."""
    text = "\n".join(line for line in JOB.splitlines() if not line.startswith(name))
    with pytest.raises(InvalidInput, match=name.replace(".", r"\.")):
        Connection.from_properties(properties(tmp_path, text))


def test_secrets_are_in_no_repr() -> None:
    """Neither of a connection nor of what is made of it."""
    secrets = {
        "sasl.password": "s3cret",
        "ssl.key.password": "s3cret",
        "ssl.key.pem": "s3cret",
        "sasl.oauthbearer.client.secret": "s3cret",
        "sasl.jaas.config": "s3cret",
    }
    connection = Connection("h:1", "j", client_config=secrets)
    assert "s3cret" not in repr(connection)
    assert "s3cret" not in repr(KafkaCluster("h:1", secrets))
    assert "s3cret" not in repr(KafkaMetadataStore("h:1", "t", client_config=secrets))
    assert redacted({"client.id": "x"}) == {"client.id": "x"}


def test_a_setting_that_the_client_does_not_know_is_named() -> None:
    """At the first use, before anything connects; a secret in its place isn't told."""
    store = KafkaMetadataStore("h:1", "t", client_config={"sasl.pasword": "s3cret"})
    with pytest.raises(InvalidInput, match=r"sasl\.pasword") as raised:
        store.get("n", "k")
    assert "s3cret" not in str(raised.value)
