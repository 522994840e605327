"""The embedded default: broker, simulated hosts, demo job, load and an independent judge."""
