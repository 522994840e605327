"""The commands `samza-dagster` and `place-container`."""
