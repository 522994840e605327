"""Clusters: where resources are held and containers run."""

from samza_dagster.cluster.interface import (
    ClusterCallbacks,
    ClusterResourceManager,
    ContainerLaunch,
    HostResources,
    ObservedContainer,
    ResourceAsk,
)
from samza_dagster.cluster.local import LocalCluster

__all__ = [
    "ClusterCallbacks",
    "ClusterResourceManager",
    "ContainerLaunch",
    "HostResources",
    "LocalCluster",
    "ObservedContainer",
    "ResourceAsk",
]
