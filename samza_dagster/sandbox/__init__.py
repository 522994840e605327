"""The embedded default: broker, simulated hosts, demo job, load and an outside judge."""
