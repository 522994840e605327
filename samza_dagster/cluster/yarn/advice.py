"""Settings of YARN that make an absence of coordinator or node cost more than necessary. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

_EXPIRY_MS = ("yarn.am.liveness-monitor.expiry-interval-ms", 600_000)
_KILL_MS = ("yarn.nodemanager.sleep-delay-before-sigkill.ms", 250)


def advice(setting: Callable[[str], str | None], lease_s: float) -> Iterator[str]:
    """Yield a line for each setting to change. `setting` reads a key of `yarn-site.xml`."""

    def is_on(key: str) -> bool:
        return (setting(key) or "").strip().lower() == "true"

    def milliseconds(key: str, default: int) -> int:
        text = (setting(key) or "").strip()
        return int(text) if text.isdigit() else default

    if not is_on("yarn.resourcemanager.recovery.enabled"):
        yield (
            "yarn.resourcemanager.recovery.enabled is off: YARN ends the job with its ResourceManager"
        )
    if not is_on("yarn.nodemanager.recovery.enabled"):
        yield (
            "yarn.nodemanager.recovery.enabled is off: a NodeManager that restarts loses sight of its "
            "containers; they run on, uncounted by YARN until they move"
        )
    expiry_ms = milliseconds(*_EXPIRY_MS)
    if expiry_ms < 2 * lease_s * 1000:
        yield (
            f"{_EXPIRY_MS[0]}={expiry_ms}: without a coordinator for so long YARN ends the job; "
            f"at least twice the lease, {round(2 * lease_s * 1000)}"
        )
    if milliseconds(*_KILL_MS) < _KILL_MS[1]:
        yield f"{_KILL_MS[0]} is less than {_KILL_MS[1]}: an agent has no time to end in order"
    runtimes = setting("yarn.nodemanager.runtime.linux.allowed-runtimes") or "default"
    if "default" not in runtimes:
        yield (
            f"yarn.nodemanager.runtime.linux.allowed-runtimes={runtimes}: in containers of Docker an "
            "agent can't see the processes that it watches; allow default too"
        )
