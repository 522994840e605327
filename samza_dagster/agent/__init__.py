"""Per host an agent, per container a warden. Standard library alone, Python 3.8 or later.

This package imports nothing of ours but the version, and nothing at all on import, so
that it runs on any host: `samza-dagster agent build` packs it with
`samza_dagster/{__init__,version}.py` into one file.
"""
