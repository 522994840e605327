"""The `dagster.yaml` that an instance for placement jobs begins with."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

FILE = "dagster.yaml"
POSTGRES_URL = "DAGSTER_POSTGRES_URL"
Storage = Literal["sqlite", "postgres"]
# Dagster's default is SQLite files below its home, so nothing names it.
_STORAGE: dict[Storage, str] = {
    "sqlite": "",
    "postgres": f"storage:\n  postgres:\n    postgres_url: {{env: {POSTGRES_URL}}}\n",
}


def instance_text(storage: Storage = "sqlite") -> str:
    """Return the content of `dagster.yaml`.

    On `postgres` the variable `DAGSTER_POSTGRES_URL` holds the address with its password:
    `postgresql+psycopg2://user:password@host:5432/database`.
    """
    return Path(__file__).with_name(FILE).read_text(encoding="utf-8") + _STORAGE[storage]


def write_instance(home: Path, *, storage: Storage = "sqlite") -> Path:
    """Write `dagster.yaml` into `home` (a DAGSTER_HOME, made if it isn't there); return its path."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / FILE
    path.write_text(instance_text(storage), encoding="utf-8")
    return path
