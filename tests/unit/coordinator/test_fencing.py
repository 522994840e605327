"""Who an incarnation is to the brokers, and when a fence may be relied on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rpds import HashTrieMap

from samza_dagster.cluster.local import LocalAgents
from samza_dagster.coordinator import leadership
from samza_dagster.coordinator.deployment import fingerprint, plan
from samza_dagster.coordinator.effects import EffectRunner
from samza_dagster.coordinator.fencing import job_fencing
from samza_dagster.coordinator.fencing.broker_fence import BrokerFence, fencing_in_force, left_over
from samza_dagster.coordinator.fencing.job_fencing import JobFencing
from samza_dagster.coordinator.fencing.principals import (
    LOGIN_FILE,
    Principals,
    is_fresh_rehearsal,
    rehearsal_id,
    systems_apart,
)
from samza_dagster.coordinator.launch import Launcher, LaunchTemplate
from samza_dagster.coordinator.leadership import LeaderSettings, Leadership
from samza_dagster.errors import InvalidInput, Refused, Unreachable
from samza_dagster.metadata.authorizer import AclRule
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_owner import Deployed
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.principal_view import PrincipalView
from samza_dagster.placement import commands
from samza_dagster.placement.state import (
    Fencing,
    Group,
    Incarnation,
    JobState,
    Limits,
    Orphan,
    Phase,
    Processor,
    Role,
)

pytestmark = pytest.mark.unit

KAFKA = "org.apache.samza.system.kafka.KafkaSystemFactory"
CONFIG = {
    "job.name": "j",
    "job.id": "1",
    "job.coordinator.system": "kafka",
    "systems.kafka.samza.factory": KAFKA,
    "systems.kafka.consumer.bootstrap.servers": "a:1,b:1",
    "systems.kafka.consumer.security.protocol": "SASL_SSL",
    "systems.kafka.consumer.sasl.mechanism": "SCRAM-SHA-512",
    "systems.kafka.consumer.sasl.jaas.config": "the coordinator's own",
    "stores.s.changelog": "kafka.j-s",
    "samza.dagster.fencing": "broker",
    "samza.dagster.fencing.rights.of": "User:j",
    "task.inputs": "kafka.in",
}


def principals(config: dict[str, str] = CONFIG, secret: bytes = b"s" * 32) -> Principals:
    """Those of a config that allows a fence."""
    found = Principals.of(config, secret)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"job.coordinator.system": ""}, "isn't Kafka"),
        ({"systems.kafka.consumer.security.protocol": "PLAINTEXT"}, "security.protocol=PLAINTEXT"),
        ({"systems.kafka.consumer.sasl.mechanism": "PLAIN"}, "sasl.mechanism=PLAIN"),
        ({"samza.dagster.fencing.rights.of": "j"}, "rights.of=j"),
        ({"stores.s.changelog": "other.j-s"}, "changelog of store s is in system other"),
        (
            {
                "task.checkpoint.factory": "x.KafkaCheckpointManagerFactory",
                "task.checkpoint.system": "other",
            },
            "task.checkpoint.system is in system other",
        ),
    ],
)
def test_a_config_that_allows_no_fence_is_refused_by_the_setting(
    change: dict[str, str], seen: str
) -> None:
    """Whoever relies on it must not get less; leases are always the way out."""
    with pytest.raises(InvalidInput) as raised:
        Principals.of({**CONFIG, **change}, b"s" * 32)
    assert seen in raised.value.seen
    assert "samza.dagster.fencing=lease" in raised.value.fix


@pytest.mark.parametrize("content", [None, "short"])
def test_a_secret_that_is_none_is_refused_and_never_told(
    tmp_path: Path, content: str | None
) -> None:
    """A file that is missing, and one too short to be a secret."""
    path = tmp_path / "secret"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InvalidInput) as raised:
        Principals.of({**CONFIG, "samza.dagster.fencing.secret.file": str(path)})
    assert "secret.file" in str(raised.value)
    assert content is None or content not in str(raised.value)
    with pytest.raises(InvalidInput, match=r"no samza\.dagster\.fencing\.secret\.file"):
        Principals.of(CONFIG)


NAMES = st.text(st.characters(blacklist_characters="/", min_codepoint=33), min_size=1, max_size=8)


@given(NAMES, NAMES, NAMES, NAMES)
def test_no_two_jobs_share_a_principal(name: str, job_id: str, other: str, other_id: str) -> None:
    """One job's clean-up never reaches another's."""
    one = replace(principals(), job_name=name, job_id=job_id)
    two = replace(principals(), job_name=other, job_id=other_id)
    assert one.execution_id(one.principal("x-1")) == "x-1"
    if (name, job_id) != (other, other_id):
        assert two.execution_id(one.user("x-1")) is None


def test_a_password_follows_from_secret_and_incarnation_alone() -> None:
    """The next coordinator says the same; another secret or incarnation has another."""
    assert principals().password("x-1") == principals().password("x-1")
    assert principals().password("x-1") != principals().password("x-2")
    assert principals().password("x-1") != principals(secret=b"t" * 32).password("x-1")
    assert len(principals().password("x-1")) == 43
    assert "s" * 32 not in repr(principals())


def test_containers_are_served_no_login_but_where_their_own_is() -> None:
    """Of consumers and producers; what a job says of one side counts for both."""
    served = principals().container_config(CONFIG)
    for side in ("consumer", "producer"):
        prefix = f"systems.kafka.{side}."
        assert served[f"{prefix}sasl.jaas.config"] == f"${{incarnation:{LOGIN_FILE}:jaas}}"
        assert served[f"{prefix}security.protocol"] == "SASL_SSL"
        assert served[f"{prefix}sasl.mechanism"] == "SCRAM-SHA-512"
    assert "the coordinator's own" not in served.values()


def test_only_systems_at_the_coordinators_brokers_are_fenced() -> None:
    """Another cluster's login is its own; it is named as not covered."""
    config = {
        **CONFIG,
        "systems.same.samza.factory": KAFKA,
        "systems.same.producer.bootstrap.servers": "b:1",
        "systems.far.samza.factory": KAFKA,
        "systems.far.consumer.bootstrap.servers": "c:1",
        "systems.far.consumer.sasl.jaas.config": "its own",
        "systems.hdfs.samza.factory": "x.Y",
    }
    found = principals(config)
    assert found.systems == ("kafka", "same")
    assert found.container_config(config)["systems.far.consumer.sasl.jaas.config"] == "its own"
    assert systems_apart(config, found) == ("far",)


def test_a_name_with_quotes_and_backslashes_stays_one_name() -> None:
    """As Java reads it: first the properties file, then the JAAS line in it."""
    import javaproperties

    odd = replace(principals(), job_name='a"b\\c')
    _, text = odd.login_file("x-1")
    jaas = javaproperties.loads(text)["jaas"]
    user = jaas.split('username="', 1)[1].split('" password=', 1)[0]
    assert user.replace('\\"', '"').replace("\\\\", "\\") == odd.user("x-1")
    assert "\n" not in jaas


def test_rights_are_copied_with_what_they_exclude() -> None:
    """ALLOW on all topics with a DENY on one must not become ALLOW on all."""
    granted = (
        AclRule("User:j", "ALLOW", "READ", "TOPIC", "in", pattern="PREFIXED"),
        AclRule("User:j", "ALLOW", "ALL", "TOPIC", "*"),
        AclRule("User:j", "DENY", "READ", "TOPIC", "salaries", host="10.0.0.1"),
    )
    principal = "User:samza-dagster/j/1/x-1"
    assert principals().rights("x-1", granted) == [replace(r, principal=principal) for r in granted]


def test_another_way_of_fencing_is_a_new_deployment() -> None:
    """Containers that have no principal of their own don't outlive the change."""
    assert fingerprint(CONFIG) != fingerprint(principals().container_config(CONFIG))


def test_the_login_goes_with_the_launch_and_is_in_no_representation() -> None:
    """Not in the JobModel, which every container's own log may tell."""
    deployment = plan(principals().container_config(CONFIG), {"in": 1}, "run-1")
    launcher = Launcher(
        LaunchTemplate(command=("java",)), "j", "1", deployment.job_model, principals()
    )
    launch = launcher.launch("0", "j-1-0-000001")
    assert launch is not None
    ((name, text),) = launch.files
    password = principals().password("j-1-0-000001")
    assert name == LOGIN_FILE
    assert password in text
    assert password not in launch.job_model_json
    assert password not in repr(launch)


def state(*ids: str, fencing: Fencing, orphan: bool = False) -> JobState:
    """One group; each id runs, the last one may be an orphan."""
    made = [
        Incarnation(epoch=n, execution_id=i, host="h1", request_id=f"r{n}")
        for n, i in enumerate(ids, 1)
    ]
    orphans = (Orphan("0", made.pop(), 0, None, ran=True),) if orphan else ()
    runs = {
        str(n): Processor(str(n), Role.ACTIVE, Phase.RUNNING, incarnation=incarnation)
        for n, incarnation in enumerate(made)
    }
    group = Group("0", processors=runs, orphans=orphans)
    return JobState("j", groups=HashTrieMap({"0": group}), limits=Limits(fencing=fencing))


@pytest.mark.parametrize("orphan", [False, True])
def test_a_fence_is_in_force_only_when_everybody_has_a_principal(*, orphan: bool) -> None:
    """One that logs in as somebody else wouldn't notice a rule: leases until it is replaced."""
    before = state("a", "b", fencing=Fencing.LEASE, orphan=orphan)
    broker = Fencing.BROKER
    assert fencing_in_force(broker, before, frozenset({"a"})) is Fencing.LEASE
    assert fencing_in_force(broker, before, frozenset({"a", "b"})) is broker
    assert fencing_in_force(Fencing.LEASE, before, frozenset({"a", "b"})) is Fencing.LEASE
    assert fencing_in_force(broker, JobState("j"), frozenset()) is broker


def test_where_the_fence_was_in_force_who_has_no_principal_was_never_started() -> None:
    """A coordinator that died between the commit of a start and its command."""
    before = state("a", "b", fencing=Fencing.BROKER)
    assert fencing_in_force(Fencing.BROKER, before, frozenset({"a"})) is Fencing.BROKER


@pytest.mark.parametrize("fencing", list(Fencing))
def test_who_may_live_is_never_left_over(fencing: Fencing) -> None:
    """Whoever runs, and whoever fell silent: until it was seen dead its rules stay."""
    now = state("a", "b", fencing=fencing, orphan=True)
    assert left_over(frozenset({"a", "b", "c"}), now, 0) == {"c"}


@dataclass
class Brokers:
    """Notes what it is asked; `away` is what it raises."""

    calls: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    away: Exception | None = None
    tries: list[str] = field(default_factory=list[str])
    now_s: float = 0.0
    takes_s: float = 0.0

    def admit(self, execution_id: str) -> None:
        self.tries.append(execution_id)
        self.now_s += self.takes_s
        if self.away is not None:
            raise self.away
        self.calls.append(("admit", execution_id))

    def fence(self, execution_id: str) -> None:
        self.calls.append(("fence", execution_id))

    def remove(self, execution_id: str) -> None:
        self.calls.append(("remove", execution_id))

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.calls.append((name, ""))


def runner(brokers: Brokers, failed: list[str]) -> EffectRunner:
    """Effects at brokers and on a cluster that share one list of calls."""
    model = plan(CONFIG, {"in": 1}, "run-1").job_model
    launcher = Launcher(LaunchTemplate(command=("java",)), "j", "1", model, principals())
    cluster: Any = brokers
    return EffectRunner(
        cluster,
        lambda: launcher,
        Counter(),
        on_start_failed=lambda execution_id, _host, _why: failed.append(execution_id),
        fence=brokers,
        monotonic=lambda: brokers.now_s,
    )


def starts(*ids: str) -> list[commands.StartContainer]:
    return [commands.StartContainer("0", each, "h1", "r1") for each in ids]


def test_a_round_of_admissions_ends_with_the_first_that_fails() -> None:
    """Each costs its whole deadline while the controller hangs: one at a time, in turn."""
    brokers = Brokers(away=Unreachable("create a login", seen="no answer"))
    effects = runner(brokers, [])
    for effect in starts("x-1", "x-2", "x-3"):
        effects.run(effect)
    assert brokers.tries == ["x-1"]
    for expected in ("x-1", "x-2", "x-3", "x-1"):
        brokers.tries.clear()
        effects.start_again(lambda _: True)
        assert brokers.tries == [expected]
    brokers.away = None
    effects.start_again(lambda _: True)
    assert sorted(i for call, i in brokers.calls if call == "admit") == ["x-1", "x-2", "x-3"]
    assert not effects.has_unadmitted


def test_slow_brokers_hold_a_round_of_admissions_up_once() -> None:
    """They answer, but late: what else is to start waits for the next round."""
    brokers = Brokers(takes_s=3.0)
    effects = runner(brokers, [])
    for effect in starts("x-1", "x-2", "x-3"):
        effects.run(effect)
    assert brokers.tries == ["x-1"]
    effects.start_again(lambda _: True)
    assert brokers.tries == ["x-1", "x-2"]
    brokers.takes_s = 0.0
    effects.start_again(lambda _: True)
    assert brokers.tries == ["x-1", "x-2", "x-3"]
    assert [call for call, _ in brokers.calls].count("start_container") == 3


def test_a_login_is_there_before_the_start_leaves_and_goes_with_the_dead() -> None:
    """In the order of the commands."""
    brokers = Brokers()
    effects = runner(brokers, [])
    effects.run(commands.StartContainer("0", "x-1", "h1", "r1"))
    effects.run(commands.FencePrincipal("0", "x-1"))
    effects.run(commands.ForgetContainer("x-1", "h1"))
    assert [call for call, _ in brokers.calls] == [
        "admit",
        "start_container",
        "fence",
        "forget_container",
        "remove",
    ]


def test_a_start_whose_login_cannot_be_made_waits_and_is_not_called_failed() -> None:
    """It may run since an earlier start of it: a word of failure would give two owners. It
    leaves as soon as the brokers are back, once.
    """
    failed: list[str] = []
    brokers = Brokers(away=Unreachable("create a login", seen="no answer"))
    effects = runner(brokers, failed)
    effects.run(commands.StartContainer("0", "x-1", "h1", "r1"))
    effects.start_again(lambda _: True)
    assert (brokers.calls, failed, effects.has_unadmitted) == ([], [], True)
    brokers.away = None
    effects.start_again(lambda execution_id: execution_id == "x-1")
    assert [call for call, _ in brokers.calls] == ["admit", "start_container"]
    assert not effects.has_unadmitted


def test_a_reservation_takes_the_launch_along_and_admits_nobody() -> None:
    """The login's file without the login at the brokers; the JobModel comes with the start."""
    asked: list[dict[str, Any]] = []
    brokers = Brokers()
    effects = runner(brokers, [])
    vars(brokers)["request_resource"] = lambda ask: asked.append(vars(ask))
    request = commands.RequestResource("r1", "0", "h1", (), 100, 1, 5_000, "x-1", ahead=True)
    effects.run(request)
    assert brokers.calls == []
    launch = asked[0]["launch"]
    assert (launch.execution_id, launch.job_model_json) == ("x-1", "")
    assert asked[0]["ahead"]
    vars(brokers)["start_container"] = lambda _request, _host, launch: asked.append(vars(launch))
    effects.run(commands.StartContainer("0", "x-1", "h1", "r1"))
    assert {**asked[1], "job_model_json": ""} == vars(launch)


def test_a_launcher_that_parks_nothing_gives_no_launch_ahead() -> None:
    """`samza.dagster.parked.starts=false`."""
    model = plan(CONFIG, {"in": 1}, "run-1").job_model
    launcher = Launcher(LaunchTemplate(command=("java",)), "j", "1", model, parked_starts=False)
    assert launcher.ahead("0", "x-1") is None
    assert launcher.launch("0", "x-1") is not None
    assert Launcher(LaunchTemplate(command=("java",)), "j", "1", model).ahead("9", "x-1") is None


# When a coordinator finds out whether its brokers can fence, and what it leaves to others.

NOW_MS = 1_795_264_662_180
PRINCIPALS = Principals("j", "1", ("kafka",), "a:1", "SASL_SSL", "SCRAM-SHA-512", "", b"s" * 32)
CLUSTER = KafkaCluster("a:1")


def test_a_failed_examination_is_no_word_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was in the way may be gone: the next one begins anew. One that held is enough."""
    outcomes: list[Exception | None] = [Refused("fence", seen="no login"), None]

    def examine(*_: object) -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    monkeypatch.setattr(job_fencing, "require_fence", examine)
    fencing = JobFencing({}, PRINCIPALS)
    fencing.begin_examination(CLUSTER)
    with pytest.raises(Refused):
        fencing.require()
    for _ in range(2):
        fencing.begin_examination(CLUSTER)
        fencing.require()
    assert outcomes == []


def test_who_cant_fence_never_waits_for_its_turn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It says so as it starts, not weeks later when it is needed."""

    def refuse(*_: object) -> None:
        raise Refused("samza.dagster.fencing=broker", seen="no authorizer")

    def wait(*_: object) -> bool:
        pytest.fail("it waits for its turn")

    monkeypatch.setattr(job_fencing, "require_fence", refuse)
    monkeypatch.setattr(leadership, "partition_counts", lambda *_: {})
    monkeypatch.setattr(leadership, "ensure_topics", lambda *_, **__: frozenset())
    monkeypatch.setattr(leadership, "read_deployed", lambda _: Deployed())
    monkeypatch.setattr(Leadership, "_is_my_turn", wait)
    config = {"job.name": "j", "task.inputs": "kafka.in"}
    settings = LeaderSettings(
        Connection("a:1", "j"),
        config,
        LaunchTemplate(command=("c",)),
        LocalAgents(tmp_path / "url", "token"),
    )
    coordinator = Leadership(settings)
    coordinator._fencing = JobFencing(config, PRINCIPALS)
    with pytest.raises(Refused, match="no authorizer"):
        coordinator.run()


class Authorizers:
    """Notes whose rules and logins are removed, and who is let in; knows `users`."""

    def __init__(self) -> None:
        self.removed: list[str] = []
        self.let_in: list[str] = []
        self.users: set[str] = set()

    def require(self) -> None: ...

    def add_rules(self, rules: Any) -> None: ...

    def logins(self) -> set[str]:
        return self.users

    def set_login(self, user: str, password: str, mechanism: str) -> None:
        self.let_in.append(user)

    def remove_rules_of(self, principals: Any) -> None:
        self.removed += list(principals)

    def remove_logins(self, users: Any, mechanism: str) -> None: ...

    def rules(self) -> list[AclRule]:
        return []


def fence_at(brokers: Authorizers, fenced: Callable[[str], None] = lambda _: None) -> BrokerFence:
    return BrokerFence(
        PRINCIPALS,
        brokers,  # pyright: ignore[reportArgumentType]
        security={},
        fenced=fenced,
    )


def test_a_take_over_leaves_an_examination_that_is_under_way_alone() -> None:
    """Of a coordinator that stands by, or of `doctor`: it would fail by that."""
    brokers = Authorizers()
    fence = fence_at(brokers)
    fresh, old = rehearsal_id(NOW_MS - 60_000), rehearsal_id(NOW_MS - 7_200_000)
    before = frozenset({fresh, old, "j-1-0-000001"})
    fence.clean_up(before, JobState("j-1"), NOW_MS)
    assert brokers.removed == sorted(map(PRINCIPALS.principal, (old, "j-1-0-000001")))


def test_who_was_launched_without_a_login_gets_none_when_its_start_is_said_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next leader would take it for fenced, and it would go on under the job's own login."""
    brokers = Authorizers()
    fence = fence_at(brokers)
    monkeypatch.setattr(BrokerFence, "at", lambda *_: fence)
    monkeypatch.setattr(PrincipalView, "brokers_without_login", lambda _: ())
    stored = state("j-1-0-000001", "j-1-1-000002", fencing=Fencing.LEASE)
    brokers.users = {PRINCIPALS.user("j-1-1-000002")}
    term = JobFencing({}, PRINCIPALS).at_take_over(CLUSTER, stored, lambda _: None)
    assert term is not None
    for execution_id in ("j-1-0-000001", "j-1-1-000002", "j-1-2-000003"):
        term.fence.admit(execution_id)
    assert brokers.let_in == [PRINCIPALS.user(f"j-1-{n}-00000{n + 1}") for n in (1, 2)]
    assert term.limits(Limits(fencing=Fencing.BROKER)).fencing is Fencing.LEASE


def test_only_an_examination_has_such_a_name() -> None:
    """Not a container, whatever its job is called; nor one of a release before."""
    assert is_fresh_rehearsal(rehearsal_id(NOW_MS), NOW_MS)
    for name in ("examination-1-0-000001", "examination-0123456789abcdef", "j-1-0-000001"):
        assert not is_fresh_rehearsal(name, NOW_MS)


def test_an_error_that_nobody_expects_doesnt_end_fencing(caplog: pytest.LogCaptureFixture) -> None:
    """It is told with its traceback, and the fence is tried again."""
    fenced: list[str] = []
    fence = fence_at(Authorizers(), fenced.append)
    outcomes: list[Exception | None] = [KeyError("x"), None]

    def fence_now(execution_id: str) -> tuple[str, ...]:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        fence._closed = True
        return ()

    fence.fence_now = fence_now
    fence._changed.wait = lambda timeout=None: True
    fence._to_fence = {"x-1": None}
    fence._work()
    assert fenced == ["x-1"]
    assert "Traceback" in caplog.text


class Absent(Authorizers):
    """Brokers that are away for the first two removals."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.errors: list[Exception] = [Unreachable("brokers"), KeyError("x")]

    def remove_rules_of(self, principals: Any) -> None:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        super().remove_rules_of(principals)


def test_what_was_seen_dead_while_the_brokers_were_away_is_removed_when_they_are_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its login and rules don't stay until the next take-over, nor does any error end the removal."""
    brokers = Absent()
    fence = fence_at(brokers)
    pauses: list[float | None] = []

    def wait(timeout: float | None = None) -> bool:
        pauses.append(timeout)
        fence._closed = timeout is None  # nothing is left to do
        return True

    fence._changed.wait = wait
    fence.remove("x-1")
    fence.remove("x-2")
    fence._work()
    assert brokers.removed == [PRINCIPALS.principal("x-1"), PRINCIPALS.principal("x-2")]
    assert brokers.asked == 3
    assert [pause is None for pause in pauses] == [False, False, True]
    assert "Traceback" in caplog.text


def test_brokers_that_are_away_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """A removal is tried twice a second, for hours perhaps."""
    brokers = Absent()
    brokers.errors = [Unreachable("brokers") for _ in range(5)]
    fence = fence_at(brokers)
    fence._changed.wait = lambda timeout=None: True
    for _ in range(6):
        fence._to_remove = {"x-1": None}
        fence._try_to_remove(["x-1"])
    assert len(caplog.records) == 1
    assert fence._to_remove == {}
