"""`samza-dagster demo`: the main job, end to end, on a sandbox of its own."""
