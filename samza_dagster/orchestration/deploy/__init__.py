"""How Dagster is deployed: its instance, queue and launcher, and runs that never got to it."""
