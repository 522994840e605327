"""What a machine needs once before Spark starts as quickly as it does later: a class archive."""

from __future__ import annotations

from samza_dagster.snapshots.class_archive import dump

if __name__ == "__main__":
    print(dump())
