"""The bounds of a job from its config: Samza's own settings, and `samza.dagster.*` beside them.

`docs/site/job_settings.toml`, the source of the reference page, describes the effect of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samza_dagster.errors import InvalidInput
from samza_dagster.placement.state import Fencing, Limits

OWN_PREFIX = "samza.dagster."
UNLIMITED = 2**31 - 1
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Setting:
    """A whole number of the config: its key, the older name that Samza reads too, its bounds."""

    key: str
    default: int
    least: int
    most: int = UNLIMITED
    older: str = ""

    def of(self, config: Mapping[str, str]) -> int:
        """Return the value; raises `InvalidInput` that names the key and its bounds."""
        key = self.key if self.key in config or self.older not in config else self.older
        text = config.get(key, str(self.default)).strip()
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()) or not self.least <= int(text) <= self.most:
            raise InvalidInput(
                f"{key} in the job's config",
                seen=repr(text),
                fix=f"a whole number from {self.least} to {self.most}, as {self.key}={self.default}",
            )
        return int(text)


MEMORY = Setting("cluster-manager.container.memory.mb", 1024, 1, older="yarn.container.memory.mb")
CORES = Setting("cluster-manager.container.cpu.cores", 1, 1, older="yarn.container.cpu.cores")
REQUEST_TIMEOUT = Setting(
    "cluster-manager.container.request.timeout.ms",
    5_000,
    1,
    _DAY_MS,
    older="yarn.container.request.timeout.ms",
)
RETRY_COUNT = Setting(
    "cluster-manager.container.retry.count", 8, -1, older="yarn.container.retry.count"
)
RETRY_WINDOW = Setting(
    "cluster-manager.container.retry.window.ms",
    300_000,
    0,
    older="yarn.container.retry.window.ms",
)
LAST_RETRY_DELAY = Setting(
    "cluster-manager.container.preferred-host.last.retry.delay.ms", 360_000, 0
)
START_TIMEOUT = Setting(f"{OWN_PREFIX}start.timeout.ms", 120_000, 1_000, _DAY_MS)
HOST_TIMEOUT = Setting(f"{OWN_PREFIX}host.timeout.ms", 30_000, 1_000, _DAY_MS)
LEASE = Setting(f"{OWN_PREFIX}lease.ms", 120_000, 3_000, _DAY_MS)
# If a warden hangs, the agent kills 2 s after the lease, at a look every 0.2 s, and the kernel
# has to end the process. The minimum covers that; the rest is for clocks that drift apart.
LEASE_BOUND = Setting(f"{OWN_PREFIX}lease.bound.ms", 4_000, 3_000, _DAY_MS)
CONCURRENT_STARTS = Setting(f"{OWN_PREFIX}max.concurrent.starts", 2, 1)
CONCURRENT_ACTIONS = Setting(f"{OWN_PREFIX}max.concurrent.actions", 8, 1)
ACTIONS_PER_HOST = Setting(f"{OWN_PREFIX}max.actions.per.host", 2, 1)
STANDBY_STALLED = Setting(f"{OWN_PREFIX}standby.stalled.ms", 120_000, 0, _DAY_MS)
MAX_STANDBYS = Setting(f"{OWN_PREFIX}max.standbys", 4, 0, 100)
REMEMBERED = Setting(f"{OWN_PREFIX}remembered.requests", 20_000, 1, 1_000_000)
CLEAN_AFTER = Setting(f"{OWN_PREFIX}clean.after.ms", 7 * _DAY_MS, 60_000)
SETTINGS = tuple(each for each in list(globals().values()) if isinstance(each, Setting))
"""All of them."""
HOST_AFFINITY = "job.host-affinity.enabled"
OLDER_HOST_AFFINITY = "yarn.samza.host-affinity.enabled"
FAIL_JOB = "cluster-manager.container.fail.job.after.retries"
FAULT_DOMAINS = "cluster-manager.fault-domain-aware.standby.enabled"
FENCING = f"{OWN_PREFIX}fencing"
PARKED_STARTS = f"{OWN_PREFIX}parked.starts"


def limits_of(config: Mapping[str, str]) -> Limits:
    """Return the bounds of a job; raises `InvalidInput` that names the key of a bad value.

    All of `SETTINGS` are checked, also those that only a leader's parts read.
    """
    for setting in SETTINGS:
        setting.of(config)
    retries = RETRY_COUNT.of(config)
    return Limits(
        container_memory_mb=MEMORY.of(config),
        container_cores=CORES.of(config),
        request_timeout_ms=REQUEST_TIMEOUT.of(config),
        start_timeout_ms=START_TIMEOUT.of(config),
        host_timeout_ms=HOST_TIMEOUT.of(config),
        lease_ms=LEASE.of(config),
        lease_bound_ms=LEASE_BOUND.of(config),
        fencing=fencing_of(config),
        retry_count=UNLIMITED if retries < 0 else retries,
        retry_window_ms=RETRY_WINDOW.of(config),
        max_concurrent_starts=CONCURRENT_STARTS.of(config),
        max_concurrent_actions=CONCURRENT_ACTIONS.of(config),
        max_actions_per_host=ACTIONS_PER_HOST.of(config),
        max_standbys=MAX_STANDBYS.of(config),
        remembered_uuids=REMEMBERED.of(config),
        host_affinity=_is_true(config, HOST_AFFINITY, config.get(OLDER_HOST_AFFINITY, "false")),
    )


def knows_fault_domains(config: Mapping[str, str]) -> bool:
    """Return whether the agents' fault domains count; only an explicit `false` says no."""
    return _is_true(config, FAULT_DOMAINS, "true")


def parks_starts(config: Mapping[str, str]) -> bool:
    """Return whether a container's process is launched once its resource is held, before its start."""
    return _is_true(config, PARKED_STARTS, "true")


def _is_true(config: Mapping[str, str], key: str, default: str) -> bool:
    return config.get(key, default).strip().lower() == "true"


def fencing_of(config: Mapping[str, str]) -> Fencing:
    """Return the fencing that takes a lost container's tasks away.

    Raises `InvalidInput` for another word.
    """
    text = config.get(FENCING, Fencing.LEASE.value).strip().lower()
    try:
        return Fencing(text)
    except ValueError as error:
        raise InvalidInput(
            f"{FENCING} in the job's config",
            seen=repr(text),
            fix=f"{FENCING}=lease, or {FENCING}=broker where the brokers have an authorizer",
        ) from error
