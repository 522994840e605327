"""`server.properties` of the sandbox's broker: listeners, logins and rights, sizes for one node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from samza_dagster.sandbox.ports import LOOPBACK
from samza_dagster.sandbox.properties import filled_in

ADMIN = "samza-dagster-coordinator"
"""The coordinator's user under an authorizer; it may do everything."""
MECHANISM = "SCRAM-SHA-256"
"""The cheaper SCRAM, because a container logs in a dozen times at its start."""
JOB_LISTENER = "JOB"
"""The listener of the job's own clients behind a forwarder."""
_PROTOCOLS = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


def authorizer_settings(port: int, controller_port: int, sasl_port: int) -> dict[str, str]:
    """Return the settings for logins and rights: a second listener with SCRAM, and an authorizer.

    Clients at the listener without a login may do everything, so any client on this machine works
    without one. Clients that log in may do what the rules allow; the coordinator may do
    everything.
    """
    listeners = f"PLAINTEXT://{LOOPBACK}:{port},SASL_PLAINTEXT://{LOOPBACK}:{sasl_port}"
    return {
        "listeners": f"{listeners},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": _PROTOCOLS,
        "sasl.enabled.mechanisms": MECHANISM,
        _jaas("sasl_plaintext"): _SCRAM,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{ADMIN}",
    }


def broker_settings(port: int, controller_port: int, data: Path) -> dict[str, str]:
    """Return `server.properties` of a single node."""
    return filled_in(
        "broker.properties",
        loopback=LOOPBACK,
        port=port,
        controller_port=controller_port,
        data=data,
    )


def cluster_settings(node_id: int, nodes: int, voters: str) -> dict[str, str]:
    """Return the settings of one of `nodes`: a quorum of controllers, Kafka's own topics on all."""
    # `default.replication.factor` and `min.insync.replicas` stay at Kafka's default of 1, so that
    # code that relies on them shows.
    copies = str(min(3, nodes))
    in_sync = str(max(1, min(3, nodes) - 1))
    return {
        "node.id": str(node_id),
        "controller.quorum.voters": voters,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def job_listener_settings(settings: Mapping[str, str], port: int, address: str) -> dict[str, str]:
    """Return the settings that add `JOB`, a listener at `port` that advertises `address`."""
    # Under an authorizer its clients have to log in, as at the listener without a forwarder.
    fenced = "authorizer.class.name" in settings
    protocol = "SASL_PLAINTEXT" if fenced else "PLAINTEXT"
    return {
        "listeners": f"{settings['listeners']},{JOB_LISTENER}://{LOOPBACK}:{port}",
        "advertised.listeners": f"{settings['advertised.listeners']},{JOB_LISTENER}://{address}",
        "listener.security.protocol.map": f"{_PROTOCOLS},{JOB_LISTENER}:{protocol}",
        **({_jaas(JOB_LISTENER.lower()): _SCRAM} if fenced else {}),
    }


def _jaas(listener: str) -> str:
    return f"listener.name.{listener}.{MECHANISM.lower()}.sasl.jaas.config"
