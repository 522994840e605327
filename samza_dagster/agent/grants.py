"""The lease that a host holds, on disk: `grant.json`, and `grant.spare` for when the disk is full.

A full disk must not end every container of a host for want of 300 bytes. The spare has its
room from the start. It is overwritten in place, so a reader may see half of a write: two
slots are written in turn, each with a checksum. It counts only over the very `grant.json`
that couldn't be replaced: the next one that could makes it void.
"""

from __future__ import annotations

import json
import logging
import os
import zlib
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from samza_dagster.agent.files import write_json
from samza_dagster.agent.lease import Grant, Now, longer

LOG = logging.getLogger("samza_dagster.agent")

_SLOT = 4096
_SLOTS = 2


class _Spare(NamedTuple):
    """A slot as it was written whole."""

    slot: int
    number: int
    over: Optional[str]
    grant: Dict[str, Any]


def read(path: Path, boot_id: str) -> Optional[Grant]:
    """Return the grant that was written last; None where there is none of this boot."""
    spares = _read_spares(path)  # first: a `grant.json` that came after makes them void
    text = _text(path)
    spare = _newest(spares, text)
    return Grant.from_json(_object(text) if spare is None else spare.grant, boot_id)


def write(path: Path, grant: Grant) -> None:
    """Write the grant for `read`; in place where there is no room to replace the file.

    Raises `OSError`, with what was there as it was, when neither can be done: the spare was
    never made, or its file system can't write in place (copy on write).
    """
    value = grant.to_json()
    try:
        write_json(path, value)
    except OSError as error:
        if not _overwrite(path, value):
            raise
        LOG.warning("the lease is passed on in place, there is no room: %s", error)


def _spare(path: Path) -> Path:
    return path.with_suffix(".spare")


def make_room(path: Path) -> None:
    """Create the spare with all of its blocks; log when that fails.

    Called as an agent starts: it waits for the disk, which no lease may.
    """
    spare = _spare(path)
    try:
        if spare.exists() and spare.stat().st_size == _SLOT * _SLOTS:
            return
        descriptor = os.open(str(spare), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(descriptor, b" " * (_SLOT * _SLOTS), 0)
            os.fsync(descriptor)  # some file systems take blocks no earlier
        finally:
            os.close(descriptor)
    except OSError as error:
        LOG.warning("%s can't be made: %s", spare, error)


def _overwrite(path: Path, value: Dict[str, Any]) -> bool:
    over = _text(path)
    spares = _read_spares(path)
    newest = _newest(spares, over)
    number = 1 + max((each.number for each in spares), default=0)
    content = json.dumps({"number": number, "over": over, "grant": value}).encode("ascii")
    line = b"%08x %s\n" % (zlib.crc32(content), content)
    if len(line) > _SLOT:
        return False
    slot = 0 if newest is None else (newest.slot + 1) % _SLOTS
    try:
        descriptor = os.open(str(_spare(path)), os.O_WRONLY)
    except OSError:
        return False
    try:
        if os.fstat(descriptor).st_size != _SLOT * _SLOTS:
            return False
        return os.pwrite(descriptor, line.ljust(_SLOT), slot * _SLOT) == _SLOT
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _newest(spares: List[_Spare], over: Optional[str]) -> Optional[_Spare]:
    valid = [each for each in spares if each.over == over]
    return max(valid, key=lambda each: each.number, default=None)


def _read_spares(path: Path) -> List[_Spare]:
    """Return the slots that are whole."""
    try:
        data = _spare(path).read_bytes()
    except OSError:
        return []
    found: List[_Spare] = []
    for slot in range(_SLOTS):
        checksum, _, content = data[slot * _SLOT : (slot + 1) * _SLOT].strip().partition(b" ")
        try:
            if int(checksum, 16) != zlib.crc32(content):
                continue
            value: Any = json.loads(content)
            found.append(_Spare(slot, int(value["number"]), value["over"], value["grant"]))
        except (
            ValueError,
            KeyError,
            TypeError,
            OverflowError,
            RecursionError,
        ):  # torn, or never written
            continue
    return found


def _object(text: Optional[str]) -> Optional[Dict[str, Any]]:
    try:
        value: Any = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


def _text(path: Path) -> Optional[str]:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


class HeldLease:
    """The current grant, which the wardens read; changed only under the agent's lock.

    `grant` None is a lease that the agent doesn't know.
    """

    def __init__(self, directory: Path, boot_id: str, clocks: Callable[[], Now]) -> None:
        self.file = directory / "grant.json"
        self.grant: Optional[Grant] = None
        self._boot_id = boot_id
        self._clocks = clocks

    def adopt(self) -> None:
        """Adopt the grant of an earlier agent, and make room for later ones."""
        make_room(self.file)
        self.grant = read(self.file, self._boot_id)

    def take(self, offered: Grant) -> Optional[Grant]:
        """Store and return the grant that follows the current one; None when that one ends later.

        Raises `OSError`, with the current one unchanged, when it can't be passed to the wardens.
        """
        chosen = longer(self.grant, offered, self._clocks())
        if chosen is self.grant:
            return None
        taken = chosen.after(self.grant)
        write(self.file, taken)  # first: the wardens know no other
        self.grant = taken
        return taken

    def is_live(self) -> bool:
        """Return whether containers may live."""
        return self.grant is not None and self.grant.is_live(self._clocks())

    def left_s(self) -> Optional[float]:
        """Return the seconds until it ends, 0 or less when it has; None when it isn't known."""
        return None if self.grant is None else self.grant.remaining_s(self._clocks())
