"""Assets computed from Kafka by Spark: localities, lag, readiness of standbys."""
