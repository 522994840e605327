"""Spark's daemon of Python workers on this machine (`spark.python.daemon.module`), with their modules loaded.

Workers are forked from it and don't import its modules again. It takes pyspark from where it is
installed, not from the archives that Spark puts before it on the path. Otherwise each task makes Python
look for new modules and read every archive's directory again, for a fifth of a second of CPU time. A
worker also collects garbage after each task, and skips what was there at the fork.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from pathlib import Path

_LOADED = ("samza_dagster.snapshots", "confluent_kafka", "confluent_kafka.admin")


def main() -> None:
    """Serves until Spark ends."""
    sys.path[:] = [place for place in sys.path if not Path(place).is_file()]
    sys.path_importer_cache.clear()
    for name in _LOADED:
        import_module(name)
    daemon = import_module("pyspark.daemon")
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
