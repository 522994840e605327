"""Text that outlives a process, in the cursor of a sensor or a tag of a run. One codec for all of it."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Self

from pydantic import TypeAdapter

from samza_dagster.orchestration.tags import MOST_TAG_BYTES


class Versioned:
    """Base of a frozen dataclass that is kept as JSON with a version.

    `VERSION` changes with the fields that are kept, where a default doesn't do for a new one.
    """

    __slots__ = ()
    VERSION: ClassVar[int]

    def to_text(self) -> str:
        """Return the text to keep: compressed where it is longer than a tag may be."""
        plain = adapter(type(self)).dump_python(self, mode="json")
        text = json.dumps({"version": self.VERSION, **plain}, separators=(",", ":"))
        if len(text) <= MOST_TAG_BYTES:
            return text
        return base64.b64encode(zlib.compress(text.encode())).decode()

    @classmethod
    def read(
        cls, text: str | None, job: str | None = None, say: Callable[[str], None] = lambda _: None
    ) -> Self | None:
        """Read what was kept; None for nothing, or for another `job`'s (None: it is of no job).

        Returns None also for data in an unknown form: `say` gets the reason, and the caller starts over.
        """
        if not text:
            return None
        try:
            whole = text if text.lstrip()[:1] in "{[" else zlib.decompress(base64.b64decode(text))
            data: dict[str, Any] = json.loads(whole)
            if job is not None and data["job"] != job:
                return None
            if data["version"] != cls.VERSION:
                raise LookupError(f"version {data['version']!r:.20}, and not {cls.VERSION}")
            return adapter(cls).validate_python(data)
        except Exception as error:  # a sensor must survive any past cursor
            say(f"what was kept isn't understood, so this begins anew: {error!r:.300}")
            return None


@cache
def adapter(kept: Any) -> TypeAdapter[Any]:
    """Return the reader and writer of a type; made when first needed, since each run loads the definitions."""
    return TypeAdapter(kept)
