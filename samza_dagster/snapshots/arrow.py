"""pyarrow's modules; it tells no types."""

from importlib import import_module
from typing import Any

pa: Any = import_module("pyarrow")
compute: Any = import_module("pyarrow.compute")
filesystem: Any = import_module("pyarrow.fs")
