"""One YARN application of ours: submitted without a master of its own, registered, asked for containers.

Calls block, and may be made from several threads but for `beat`, which is one thread's. Java's
exceptions come through as py4j raises them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from samza_dagster.cluster.yarn.gateway import HadoopGateway, java_words
from samza_dagster.errors import (
    ActionFailed,
    DeadlineExceeded,
    InvalidInput,
    Unreachable,
    some_of,
)

APPLICATION_TYPE = "samza-dagster"
SECRET = "samza-dagster.token"  # noqa: S105 - the name of a secret
RUNNING = "RUNNING"
"""A node in this state takes containers."""
_LAUNCHED_S = 60.0
_NODE_STATES = (
    "NEW",
    "RUNNING",
    "UNHEALTHY",
    "DECOMMISSIONING",
    "DECOMMISSIONED",
    "LOST",
    "REBOOTED",
    "SHUTDOWN",
)


@dataclass(frozen=True)
class Node:
    """A NodeManager as the ResourceManager tells of it; memory in MiB."""

    host: str
    state: str
    memory_mb: int
    cores: int
    used_memory_mb: int
    used_cores: int
    labels: tuple[str, ...] = ()
    why: str = ""

    def describe(self) -> str:
        """For a person."""
        free = f"{self.memory_mb - self.used_memory_mb:,} of {self.memory_mb:,} MiB free"
        return f"{self.state}, {free}" + (f", {self.why}" if self.why else "")


@dataclass(frozen=True)
class YarnContainer:
    """One that was allocated to us. `ask_id` is that of the ask that it answers."""

    id: str
    host: str
    ask_id: int
    priority: int
    handle: Any = field(repr=False, compare=False)


@dataclass(frozen=True)
class EndedContainer:
    """What the ResourceManager says of a container's end: never evidence that its processes are dead."""

    id: str
    exit_status: int
    diagnostics: str

    def __str__(self) -> str:
        """In one line: the last of YARN's words is what its process said, or how it was ended."""
        lines = [line.strip() for line in self.diagnostics.splitlines() if line.strip()]
        return f"exit status {self.exit_status}" + (f", {lines[-1]}" if lines else "")


@dataclass(frozen=True)
class Beat:
    """What one heartbeat brought."""

    allocated: tuple[YarnContainer, ...]
    ended: tuple[EndedContainer, ...]
    nodes_changed: bool
    token: str | None
    node_tokens: Mapping[str, str]


@dataclass(frozen=True)
class Ask:
    """A container on one host. `label` is a node label expression."""

    id: int
    host: str
    memory_mb: int
    cores: int
    priority: int
    label: str = ""


@dataclass(frozen=True)
class Launch:
    """How a container is started: a constant command, files by URL, and secrets."""

    command: str
    files: Mapping[str, str]
    secrets: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)


class YarnApplication:
    """`identifier` is the application's; `token` its master's, to be kept by who may register anew."""

    def __init__(self, gateway: HadoopGateway) -> None:
        self._gateway = gateway
        self._jvm = gateway.jvm
        self._records: Any = self._jvm.org.apache.hadoop.yarn.api.records
        self._api: Any = self._jvm.org.apache.hadoop.yarn.client.api
        self._client: Any = self._api.YarnClient.createYarnClient()
        self._client.init(gateway.configuration)
        self._client.start()
        self._master: Any = None
        self._nodes: Any = None
        self._requests: dict[int, Any] = {}
        self.identifier = ""
        self.token = ""
        self.largest = (0, 0)

    # The application

    def require(self, queue: str, label: str) -> None:
        """Returns where an application could be submitted.

        Raises `Unreachable` without a ResourceManager, and `InvalidInput` for a queue or a label that
        isn't there, or that this user may not use.
        """
        try:
            found = self._client.getQueueInfo(queue)
            labels = [str(each.getName()) for each in self._client.getClusterNodeLabels()]
            rights = {
                str(each.getQueueName()).rpartition(".")[2]: [
                    str(r.toString()) for r in each.getUserAcls()
                ]
                for each in self._client.getQueueAclsInfo()
            }
            queues = sorted(str(each.getQueueName()) for each in self._client.getAllQueues())
        except Exception as error:
            raise Unreachable(
                "YARN's ResourceManager", seen=java_words(error), fix="see that it runs, and --hadoop-conf"
            ) from error  # fmt: skip
        if found is None:
            raise InvalidInput(
                f"--queue {queue}", seen=f"YARN has {some_of(queues)}", fix="name one of these"
            )
        if label and label not in labels:
            fix = "name one of these" if labels else "leave it out"
            seen = f"YARN has {some_of(labels) or 'none'}"
            raise InvalidInput(f"--node-label {label}", seen=seen, fix=fix)
        if "SUBMIT_APPLICATIONS" not in rights.get(
            queue.rpartition(".")[2], ["SUBMIT_APPLICATIONS"]
        ):
            raise InvalidInput(
                f"--queue {queue}",
                seen="this user may not submit applications to it",
                fix=f"the right in yarn.scheduler.capacity.root.{queue}.acl_submit_applications",
            )

    def submit(self, name: str, *, queue: str, label: str) -> None:
        """A new one, that goes on without its master. Raises `ActionFailed` when YARN doesn't take it."""
        application = self._client.createApplication()
        context = application.getApplicationSubmissionContext()
        context.setApplicationName(name)
        context.setApplicationType(APPLICATION_TYPE)
        context.setQueue(queue)
        if label:
            context.setNodeLabelExpression(label)
        context.setUnmanagedAM(True)
        context.setKeepContainersAcrossApplicationAttempts(True)
        nothing = self._jvm.java.util.HashMap()
        context.setAMContainerSpec(
            self._records.ContainerLaunchContext.newInstance(
                nothing, nothing, self._jvm.java.util.ArrayList(), None, None, None
            )
        )
        identifier = self._client.submitApplication(context)
        self._wait_until_launched(identifier)
        token = self._client.getAMRMToken(identifier)
        if token is None:
            raise ActionFailed(f"take the token of {identifier.toString()}", seen="YARN tells none")
        self.identifier, self.token = str(identifier.toString()), str(token.encodeToUrlString())

    def state(self, identifier: str) -> str:
        """YARN's state of an application, as RUNNING; raises as py4j does for one that it doesn't know."""
        report = self._client.getApplicationReport(
            self._records.ApplicationId.fromString(identifier)
        )
        return str(report.getYarnApplicationState().toString())

    def kill(self, identifier: str) -> None:
        """Ends it with all its containers."""
        self._client.killApplication(self._records.ApplicationId.fromString(identifier))

    def _wait_until_launched(self, identifier: Any) -> None:
        deadline = time.monotonic() + _LAUNCHED_S
        while time.monotonic() < deadline:
            report = self._client.getApplicationReport(identifier)
            state = str(report.getYarnApplicationState().toString())
            if state in ("FAILED", "KILLED", "FINISHED"):
                raise ActionFailed(
                    f"submit {identifier.toString()} to YARN",
                    seen=f"{state}: {report.getDiagnostics()}".strip(),
                    fix="see the queue's limits and rights",
                )
            attempt = report.getCurrentApplicationAttemptId()
            if attempt is not None:
                told = self._client.getApplicationAttemptReport(attempt)
                if told.getYarnApplicationAttemptState().toString() == "LAUNCHED":
                    return
            time.sleep(0.02)
        self._client.killApplication(identifier)
        raise DeadlineExceeded(
            f"start {identifier.toString()} on YARN",
            seen=f"not launched within {_LAUNCHED_S:g} s",
            fix="see the queue's limit for masters (maximum-am-resource-percent) and its free room",
        )

    def register(
        self, identifier: str, token: str, *, url: str, node_tokens: Mapping[str, str]
    ) -> tuple[YarnContainer, ...]:
        """Becomes its master, and returns the containers that it has of masters before."""
        self.identifier, self.token = identifier, token
        self._use(token)
        cache: Any = self._api.NMTokenCache.getSingleton()
        for node, text in node_tokens.items():
            cache.setToken(node, self._decoded(text))
        self._master = self._api.AMRMClient.createAMRMClient()
        self._master.init(self._gateway.configuration)
        self._master.start()
        self._nodes = self._api.NMClient.createNMClient()
        self._nodes.cleanupRunningContainersOnStop(False)
        self._nodes.init(self._gateway.configuration)
        self._nodes.start()
        address = urlsplit(url)
        told = self._master.registerApplicationMaster(
            address.hostname or "", address.port or -1, url
        )
        largest = told.getMaximumResourceCapability()
        self.largest = (int(largest.getMemorySize()), int(largest.getVirtualCores()))
        return tuple(_container(each) for each in told.getContainersFromPreviousAttempts())

    def _use(self, text: str) -> None:
        token = self._jvm.org.apache.hadoop.security.token.Token()
        token.decodeFromUrlString(text)
        proxy: Any = self._jvm.org.apache.hadoop.yarn.client.ClientRMProxy
        token.setService(proxy.getAMRMTokenService(self._gateway.configuration))
        self._jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser().addToken(token)

    def unregister(self) -> None:
        """Ends the application: YARN ends its containers."""
        status: Any = self._records.FinalApplicationStatus.SUCCEEDED
        self._master.unregisterApplicationMaster(status, "ended in order", "")

    # Containers

    def ask(self, ask: Ask) -> None:
        """Told with the next heartbeat; stands until it is answered or `withdraw`n."""
        builder: Any = self._api.AMRMClient.ContainerRequest.newBuilder()
        builder.capability(self._records.Resource.newInstance(ask.memory_mb, ask.cores))
        builder.priority(self._records.Priority.newInstance(ask.priority))
        builder.allocationRequestId(ask.id).relaxLocality(False)
        builder.nodes(self._gateway.strings(ask.host))
        request = builder.build()
        self._master.addContainerRequest(request)
        self._requests[ask.id] = request

    def withdraw(self, ask_id: int) -> None:
        """It may be answered all the same."""
        request = self._requests.pop(ask_id, None)
        if request is not None:
            self._master.removeContainerRequest(request)

    def beat(self) -> Beat:
        """One heartbeat."""
        answer = self._master.allocate(0.5)
        allocated = tuple(_container(each) for each in answer.getAllocatedContainers())
        for each in allocated:
            self.withdraw(each.ask_id)  # the client would ask for it anew after a resync
        ended = tuple(
            EndedContainer(str(s.getContainerId().toString()), int(s.getExitStatus()), str(s.getDiagnostics() or ""))
            for s in answer.getCompletedContainersStatuses()
        )  # fmt: skip
        rolled = answer.getAMRMToken()
        if rolled is not None:
            self.token = self._encoded(rolled)
        return Beat(
            allocated,
            ended,
            not answer.getUpdatedNodes().isEmpty(),
            None if rolled is None else self.token,
            {
                str(each.getNodeId().toString()): self._encoded(each.getToken())
                for each in answer.getNMTokens()
            },
        )

    def _decoded(self, text: str) -> Any:
        token = self._jvm.org.apache.hadoop.security.token.Token()
        token.decodeFromUrlString(text)
        kind, service = str(token.getKind().toString()), str(token.getService().toString())
        return self._records.Token.newInstance(
            token.getIdentifier(), kind, token.getPassword(), service
        )

    def _encoded(self, rolled: Any) -> str:
        token = self._jvm.org.apache.hadoop.security.token.Token(
            rolled.getIdentifier().array(),
            rolled.getPassword().array(),
            self._jvm.org.apache.hadoop.io.Text(rolled.getKind()),
            self._jvm.org.apache.hadoop.io.Text(rolled.getService()),
        )
        return str(token.encodeToUrlString())

    def start(self, container: YarnContainer, launch: Launch) -> None:
        """Returns once its NodeManager has begun to start it."""
        files = self._jvm.java.util.HashMap()
        for name, url in launch.files.items():
            files.put(name, self._by_http(url))
        commands = self._jvm.java.util.ArrayList()
        commands.add(launch.command)
        context = self._records.ContainerLaunchContext.newInstance(
            files,
            self._jvm.java.util.HashMap(),
            commands,
            None,
            self._secrets(launch.secrets),
            None,
        )
        self._nodes.startContainer(container.handle, context)

    def stop(self, container: YarnContainer) -> None:
        """Has its NodeManager end it: SIGTERM to its process group, then SIGKILL."""
        self._nodes.stopContainer(container.handle.getId(), container.handle.getNodeId())

    def is_started(self, container: YarnContainer) -> bool:
        """Whether its NodeManager knows it; one that doesn't answer may know it."""
        try:
            self._nodes.getContainerStatus(container.handle.getId(), container.handle.getNodeId())
        except Exception as error:
            thrown = getattr(error, "java_exception", None)
            return thrown is None or "is not handled by this NodeManager" not in str(
                thrown.toString()
            )
        return True

    def release(self, container: YarnContainer) -> None:
        """Gives back one that was allocated and not started."""
        self._master.releaseAssignedContainer(container.handle.getId())

    def nodes(self) -> tuple[Node, ...]:
        """Every node of the cluster, in any state but never heard of."""
        states: Any = self._records.NodeState
        wanted = self._gateway.java.new_array(states, len(_NODE_STATES))
        for at, name in enumerate(_NODE_STATES):
            wanted[at] = getattr(states, name)
        return tuple(_node(each) for each in self._client.getNodeReports(wanted))

    def _by_http(self, url: str) -> Any:
        at = urlsplit(url)
        # Of a page of http neither size nor time of change is known: -1 and 0 (HttpFileSystem).
        return self._records.LocalResource.newInstance(
            self._records.URL.newInstance("http", at.hostname, at.port, at.path),
            self._records.LocalResourceType.FILE,
            self._records.LocalResourceVisibility.APPLICATION,
            -1,
            0,
        )

    def _secrets(self, secrets: Mapping[str, bytes]) -> Any:
        if not secrets:
            return None
        credentials = self._jvm.org.apache.hadoop.security.Credentials()
        for name, value in secrets.items():
            credentials.addSecretKey(self._jvm.org.apache.hadoop.io.Text(name), value)
        buffer = self._jvm.org.apache.hadoop.io.DataOutputBuffer()
        credentials.writeTokenStorageToStream(buffer)
        return self._jvm.java.nio.ByteBuffer.wrap(buffer.getData(), 0, buffer.getLength())


def _container(each: Any) -> YarnContainer:
    return YarnContainer(
        str(each.getId().toString()),
        str(each.getNodeId().getHost()),
        int(each.getAllocationRequestId()),
        int(each.getPriority().getPriority()),
        each,
    )


def _node(report: Any) -> Node:
    capability, used, labels = report.getCapability(), report.getUsed(), report.getNodeLabels()
    return Node(
        str(report.getNodeId().getHost()),
        str(report.getNodeState().toString()),
        int(capability.getMemorySize()),
        int(capability.getVirtualCores()),
        0 if used is None else int(used.getMemorySize()),
        0 if used is None else int(used.getVirtualCores()),
        () if labels is None else tuple(sorted(str(label) for label in labels)),
        str(report.getHealthReport() or ""),
    )


def by_host(nodes: Iterable[Node]) -> dict[str, Node]:
    """One of each host: that which runs, where YARN remembers others that ran there before."""
    return {node.host: node for node in sorted(nodes, key=lambda each: each.state == RUNNING)}


def closed(node: Node | None, *, label: str) -> str:
    """Why YARN gives no container there; "" where it does."""
    if node is None:
        return "YARN has no such node"
    if node.state != RUNNING:
        return f"YARN says that it is {node.state}" + (f": {node.why}" if node.why else "")
    if label and label not in node.labels:
        return f"its node hasn't the label {label}"
    return ""
