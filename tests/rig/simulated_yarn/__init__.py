"""A YARN of many nodes with their agents, in one process; a real coordinator works with it."""

SOCKET = "SAMZA_DAGSTER_SIMULATED_YARN"
"""The environment's name of the socket at which the cluster is called."""
