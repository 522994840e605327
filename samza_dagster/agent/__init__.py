"""Per host an agent, per container a warden. Standard library alone, Python 3.8 or later.

This package imports nothing of ours outside itself and nothing at all on import, so
that it runs on any host: copy `samza_dagster/{__init__,version}.py` and this directory.
"""
