"""What each setting of a job's config does here, for the reference page.

Of a number the default and the bounds are those by which it is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from samza_dagster.coordinator.limits import (
    ACTIONS_PER_HOST,
    CLEAN_AFTER,
    CONCURRENT_ACTIONS,
    CONCURRENT_STARTS,
    CORES,
    HOST_TIMEOUT,
    LAST_RETRY_DELAY,
    LEASE,
    LEASE_BOUND,
    MAX_STANDBYS,
    MEMORY,
    REMEMBERED,
    REQUEST_TIMEOUT,
    RETRY_COUNT,
    RETRY_WINDOW,
    STANDBY_STALLED,
    START_TIMEOUT,
    UNLIMITED,
    Setting,
)


@dataclass(frozen=True)
class Described:
    """A setting that is read as a number, or the name of one that isn't, with its default."""

    setting: Setting | str
    effect: str
    default: str = ""

    @property
    def key(self) -> str:
        """As in the config; the older name that is read too stands in brackets."""
        if isinstance(self.setting, str):
            return self.setting
        older = f" ({self.setting.older})" if self.setting.older else ""
        return self.setting.key + older

    @property
    def bounds(self) -> str:
        """Of a number; empty for anything else, and where only the size of a number bounds it."""
        if isinstance(self.setting, str):
            return ""
        most = "" if self.setting.most == UNLIMITED else f" to {self.setting.most:,}"
        return f"from {self.setting.least:,}{most}"

    @property
    def shown_default(self) -> str:
        """As somebody would write it."""
        return self.default if isinstance(self.setting, str) else str(self.setting.default)


SAMZAS = (
    Described(
        "job.container.count",
        default="1",
        effect="Active containers.",
    ),
    Described(
        "task.name.grouper.factory",
        default="Samza's GroupByContainerCountFactory",
        effect="Which container has which tasks (see groupers); a name that nobody has is refused.",
    ),
    Described(
        "job.hotstandby.enabled, job.hotstandby.replicationcount, job.standbytasks.replication.factor",
        default="none",
        effect="Standbys of each active; the factor counts the active too, and settings that disagree "
        "are refused.",
    ),
    Described(
        "job.coordinator.replication.factor, else systems.<its system>.default.stream.replication.factor",
        default="3",
        effect="Replicas of the coordinator stream and of our state and audit topics, as many as there "
        "are brokers where fewer; read when they are created. Of three a commit waits for two "
        "(`min.insync.replicas`). Topics that are there with fewer, or without two in sync to "
        "wait for, are named at each start and by `samza-dagster doctor`, with the command that "
        "mends it.",
    ),
    Described(
        "task.transactional.state.restore.enabled",
        default="off",
        effect="Without standbys `true` is refused: Samza then empties a task's stores at each start, "
        "and every restart, move and promotion restores everything. With standbys Samza itself "
        "ignores it.",
    ),
    Described(
        "job.host-affinity.enabled (yarn.samza.host-affinity.enabled)",
        default="false",
        effect="True: a container that starts again goes to the host that it was last seen on, where its "
        "state is.",
    ),
    Described(
        MEMORY,
        effect="MiB held on a host for a container.",
    ),
    Described(
        CORES,
        effect="Cores held on a host for a container.",
    ),
    Described(
        REQUEST_TIMEOUT,
        effect="How long a resource is tried for: then the next fallback (any host); an active whose "
        "standby is ready asks its own host once and doesn't wait for room there, or the end of a "
        "placement request that names no expiry, or whose container is down by itself.",
    ),
    Described(
        RETRY_COUNT,
        effect="More failures than this within the window are flapping: the next starts pause 30 s "
        "each; -1: never. The job doesn't end, as it would under Samza: only failures count, "
        "and only time is lost.",
    ),
    Described(
        RETRY_WINDOW,
        effect="The window.",
    ),
    Described(
        "cluster-manager.container.fail.job.after.retries",
        default="true",
        effect="No effect: a job never ends by the failures of one container.",
    ),
    Described(
        LAST_RETRY_DELAY,
        effect="Checked, no effect: a failed start is tried elsewhere at once, and the pause between "
        "tries grows from 0.5 s to 30 s.",
    ),
    Described(
        "cluster-manager.fault-domain-aware.standby.enabled",
        default="as agents say",
        effect="`false`: what agents say of their fault domain is not heeded. Otherwise it counts where "
        "it is known: no two members of a group in one.",
    ),
    Described(
        "cluster-manager.fault-domain-manager.factory",
        default="-",
        effect="No effect: an agent names its host's domain (`agent run --fault-domain rack-7`).",
    ),
    Described(
        "app.run.id",
        default="-",
        effect="Replaced: each deployment gets a run id of its own.",
    ),
)
"""Settings that Samza has too. What containers read is Samza's own matter and is passed on as it is."""

OURS = (
    Described(
        LEASE,
        effect="How long containers run on without a coordinator (`coordinator run --lease SECONDS` "
        "wins). A longer one survives longer outages of coordinator and brokers, and delays the "
        "replacement of containers on a silent host by as much. Below 102000 a minute without "
        "them may end containers: the coordinator warns as it starts.",
    ),
    Described(
        LEASE_BOUND,
        effect="Added to a lease before something is replaced: 3000 at least, within which an agent has "
        "killed what a hung warden didn't; the rest is for clocks that run apart.",
    ),
    Described(
        HOST_TIMEOUT,
        effect="Silence after which a host counts as lost.",
    ),
    Described(
        "samza.dagster.fencing",
        default="lease",
        effect="What takes the tasks from a container that nobody has seen dead: its lease, or with "
        "`broker` the brokers, which refuse its principal (see security). The sandbox has "
        "`broker`. Another value is a new deployment.",
    ),
    Described(
        "samza.dagster.fencing.rights.of",
        default="-",
        effect="With `broker`: `User:<name>` whose rules, ALLOW and DENY, each container gets; without "
        "it rules for `User:*` must let containers in.",
    ),
    Described(
        "samza.dagster.fencing.secret.file",
        default="-",
        effect="With `broker`: a file with at least 16 random characters, the same for all coordinators "
        "of the job.",
    ),
    Described(
        START_TIMEOUT,
        effect="A start that hasn't checked in by then has failed.",
    ),
    Described(
        "samza.dagster.parked.starts",
        default="true",
        effect="A container's JVM is launched as soon as its resource is held and waits at its JobModel "
        "for the start: a planned move stops the running container only when its replacement "
        "waits (8 s at most). `false`: it is launched by the start.",
    ),
    Described(
        CONCURRENT_STARTS,
        effect="A container takes its turn to start (in a deployment, after a failed start or a pause) "
        "while fewer than this are between request and check-in, those of placement actions "
        "apart; what ran and died, or lost its host, is started again at once, however many have.",
    ),
    Described(
        CONCURRENT_ACTIONS,
        effect="Placement actions in flight in the job.",
    ),
    Described(
        ACTIONS_PER_HOST,
        effect="Of them touching one host: as source, as named destination, as place of the standby that "
        "gives way, or as what was chosen among several (`ANY_HOST`, that standby's new place). A "
        "full host isn't chosen while another legal one has a turn left; else the request waits "
        "in its queue. A failover waits for no limit, nor does a container that died while its "
        "destination was asked for.",
    ),
    Described(
        STANDBY_STALLED,
        effect="A standby whose process lives but which has applied nothing for so long, while its "
        "changelog grew, is restarted. Known from what it reports to the metrics topic: below two "
        "intervals of the reporter it acts on the second report. One that has told no offset "
        "since its check-in counts too, after three intervals at the soonest, and one that told "
        "offsets and then nothing more for three intervals counts as that from then on; silence "
        "counts only while others of the job report: in a job that reports nothing nobody is "
        "restarted for it. 0: never.",
    ),
    Described(
        MAX_STANDBYS,
        effect="Standbys of one active, those on request included.",
    ),
    Described(
        REMEMBERED,
        effect="Request UUIDs that are remembered, so that each is acted on once; as many again of those "
        "that were refused unread (malformed, or their queue was full).",
    ),
    Described(
        CLEAN_AFTER,
        effect="Age at which the leader removes finished placement messages, by the clock of whoever "
        "answered, looked for at each take-over and every hour; `samza-dagster gc` does it on "
        "demand.",
    ),
    Described(
        "samza.dagster.audit.retention.ms",
        default="365 days",
        effect="How long audit records are kept; read when their topic is created. What is younger "
        "`verify` misses.",
    ),
)
"""Settings that only our coordinator reads."""
