"""Our YARN application: submitted without a master of its own, registered, asked for containers.

Calls block, and may be made from several threads but for `beat`, which is one thread's. Java's
exceptions come through as py4j raises them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
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
RUNNING = "RUNNING"
"""A node in this state takes containers."""
_SECRET = "samza-dagster.token"  # noqa: S105 - the name of a secret
_SUBMIT = "SUBMIT_APPLICATIONS"
_LAUNCHED_S = 60.0


@dataclass(frozen=True)
class Node:
    """A NodeManager by the ResourceManager's report; memory in MiB."""

    host: str
    state: str
    memory_mb: int
    cores: int
    used_memory_mb: int
    used_cores: int
    labels: tuple[str, ...] = ()
    why: str = ""

    def describe(self) -> str:
        """Describe the node for a person."""
        free = f"{self.memory_mb - self.used_memory_mb:,} of {self.memory_mb:,} MiB free"
        return f"{self.state}, {free}" + (f", {self.why}" if self.why else "")


class YarnContainer(NamedTuple):
    """A container that was allocated to us. `ask_id` is that of the ask that it answers."""

    id: str
    host: str
    ask_id: int
    priority: int
    handle: Any


class EndedContainer(NamedTuple):
    """The ResourceManager's report of a container's end: never evidence that its processes are dead."""

    id: str
    exit_status: int
    diagnostics: str

    def __str__(self) -> str:
        """Return one line; the last line of YARN's report has the process's output or its end."""
        lines = [line.strip() for line in self.diagnostics.splitlines() if line.strip()]
        return f"exit status {self.exit_status}" + (f", {lines[-1]}" if lines else "")


class YarnApplication:
    """Our application at YARN: `identifier`, its master's `token`, `node_tokens` for NodeManagers.

    A master that may register anew keeps both: YARN issues each once in an application's life.
    """

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
        self.node_tokens: dict[str, str] = {}
        self.largest = (0, 0)

    # The application

    def require(self, queue: str, label: str) -> None:
        """Return if an application could be submitted.

        Raises `Unreachable` without a ResourceManager, and `InvalidInput` for a queue or a label
        that isn't there, or that this user may not use.
        """
        try:
            queues = sorted(str(each.getQueueName()) for each in self._client.getAllQueues())
            known = self._client.getQueueInfo(queue) is not None
            labels = [str(each.getName()) for each in self._client.getClusterNodeLabels()]
            rights = {
                str(each.getQueueName()).rpartition(".")[2]: str(each.getUserAcls().toString())
                for each in self._client.getQueueAclsInfo()
            }
        except Exception as error:
            raise Unreachable(
                "YARN's ResourceManager", seen=java_words(error), fix="see that it runs, and --hadoop-conf"
            ) from error  # fmt: skip
        if not known:
            seen, fix = f"YARN has {some_of(queues)}", "name one of these"
        elif _SUBMIT not in rights.get(queue.rpartition(".")[2], _SUBMIT):
            seen = "this user may not submit applications to it"
            fix = f"the right in yarn.scheduler.capacity.root.{queue}.acl_submit_applications"
        elif label and label not in labels:
            raise InvalidInput(
                f"--node-label {label}",
                seen=f"YARN has {some_of(labels) or 'none'}",
                fix="name one of these" if labels else "leave it out",
            )
        else:
            return
        raise InvalidInput(f"--queue {queue}", seen=seen, fix=fix)

    def submit(self, name: str, *, queue: str, label: str) -> None:
        """Submit an application that survives its master. Raises `ActionFailed` if YARN refuses."""
        context = self._client.createApplication().getApplicationSubmissionContext()
        context.setApplicationName(name)
        context.setApplicationType(APPLICATION_TYPE)
        context.setQueue(queue)
        if label:
            context.setNodeLabelExpression(label)
        context.setUnmanagedAM(True)
        context.setKeepContainersAcrossApplicationAttempts(True)
        context.setAMContainerSpec(
            self._records.ContainerLaunchContext.newInstance({}, {}, [], None, None, None)
        )
        identifier = self._client.submitApplication(context)
        deadline = time.monotonic() + _LAUNCHED_S
        while (token := self._client.getAMRMToken(identifier)) is None:
            report = self._client.getApplicationReport(identifier)
            state = str(report.getYarnApplicationState().toString())
            if state in ("FAILED", "KILLED", "FINISHED"):
                raise ActionFailed(
                    f"submit {identifier.toString()} to YARN",
                    seen=f"{state}: {report.getDiagnostics()}".strip(),
                    fix="see the queue's limits and rights",
                )
            if time.monotonic() > deadline:
                self._client.killApplication(identifier)
                raise DeadlineExceeded(
                    f"start {identifier.toString()} on YARN",
                    seen=f"not launched within {_LAUNCHED_S:g} s",
                    fix="see the queue's limit for masters (maximum-am-resource-percent) and its free room",
                )
            time.sleep(0.02)
        self.identifier, self.token = str(identifier.toString()), str(token.encodeToUrlString())

    def state(self, identifier: str) -> str:
        """Return an application's state, such as RUNNING.

        An unknown one raises py4j's exception.
        """
        report = self._client.getApplicationReport(
            self._records.ApplicationId.fromString(identifier)
        )
        return str(report.getYarnApplicationState().toString())

    def register(
        self, identifier: str, token: str, node_tokens: Mapping[str, str], *, url: str
    ) -> tuple[YarnContainer, ...]:
        """Become its master; return the containers of earlier masters."""
        self.identifier, self.token, self.node_tokens = identifier, token, dict(node_tokens)
        self._use(token)
        cache: Any = self._api.NMTokenCache.getSingleton()
        for node, text in node_tokens.items():
            found = self._decoded(text)
            kind, service = str(found.getKind().toString()), str(found.getService().toString())
            cache.setToken(
                node,
                self._records.Token.newInstance(
                    found.getIdentifier(), kind, found.getPassword(), service
                ),
            )
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
        token = self._decoded(text)
        proxy: Any = self._jvm.org.apache.hadoop.yarn.client.ClientRMProxy
        token.setService(proxy.getAMRMTokenService(self._gateway.configuration))
        self._jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser().addToken(token)

    def _decoded(self, text: str) -> Any:
        token = self._jvm.org.apache.hadoop.security.token.Token()
        token.decodeFromUrlString(text)
        return token

    def _encoded(self, told: Any) -> str:
        service = self._jvm.org.apache.hadoop.io.Text(told.getService())
        token = self._jvm.org.apache.hadoop.yarn.util.ConverterUtils.convertFromYarn(told, service)
        return str(token.encodeToUrlString())

    def unregister(self) -> None:
        """End the application: YARN ends its containers."""
        status: Any = self._records.FinalApplicationStatus.SUCCEEDED
        self._master.unregisterApplicationMaster(status, "ended in order", "")

    # Containers

    def ask(self, ask_id: int, host: str, memory_mb: int, cores: int, priority: int) -> None:
        """Send an ask with the next heartbeat; it is open until it is answered or `withdraw`n."""
        builder: Any = self._api.AMRMClient.ContainerRequest.newBuilder()
        builder.capability(self._records.Resource.newInstance(memory_mb, cores))
        builder.priority(self._records.Priority.newInstance(priority))
        builder.allocationRequestId(ask_id).relaxLocality(False)
        builder.nodes(self._gateway.array(self._jvm.java.lang.String, host))
        self._requests[ask_id] = builder.build()
        self._master.addContainerRequest(self._requests[ask_id])

    def withdraw(self, ask_id: int) -> None:
        """Withdraw an ask; YARN may answer it all the same."""
        request = self._requests.pop(ask_id, None)
        if request is not None:
            self._master.removeContainerRequest(request)

    def beat(self) -> tuple[list[YarnContainer], list[EndedContainer]]:
        """Send a heartbeat; return allocated and ended containers. It may change the tokens."""
        answer = self._master.allocate(0.5)
        allocated = [_container(each) for each in answer.getAllocatedContainers()]
        for each in allocated:
            self.withdraw(each.ask_id)  # the client would ask for it anew after a resync
        rolled = answer.getAMRMToken()
        if rolled is not None:
            self.token = self._encoded(rolled)
        for each in answer.getNMTokens():
            self.node_tokens[str(each.getNodeId().toString())] = self._encoded(each.getToken())
        return allocated, [
            EndedContainer(str(s.getContainerId().toString()), int(s.getExitStatus()), str(s.getDiagnostics() or ""))
            for s in answer.getCompletedContainersStatuses()
        ]  # fmt: skip

    def start(
        self, container: YarnContainer, command: str, files: Mapping[str, str], secret: str
    ) -> None:
        """Start a container with `files` by their URLs; return once its NodeManager has begun.

        `secret`, unless it is "", is in its credentials as `samza-dagster.token`.
        """
        resources = {name: self._by_http(url) for name, url in files.items()}
        credentials = self._credentials(secret) if secret else None
        context = self._records.ContainerLaunchContext.newInstance(
            resources, {}, [command], None, credentials, None
        )
        self._nodes.startContainer(container.handle, context)

    def stop(self, container: YarnContainer) -> None:
        """Make its NodeManager end it: SIGTERM to its process group, then SIGKILL."""
        self._nodes.stopContainer(container.handle.getId(), container.handle.getNodeId())

    def is_started(self, container: YarnContainer) -> bool:
        """Return whether its NodeManager knows it; one that doesn't answer may know it."""
        try:
            self._nodes.getContainerStatus(container.handle.getId(), container.handle.getNodeId())
        except Exception as error:
            thrown = getattr(error, "java_exception", None)
            return thrown is None or "is not handled by this NodeManager" not in str(
                thrown.toString()
            )
        return True

    def release(self, container: YarnContainer) -> None:
        """Give back an allocated container that wasn't started."""
        self._master.releaseAssignedContainer(container.handle.getId())

    def nodes(self) -> tuple[Node, ...]:
        """Return every node that the cluster knows, in any state."""
        every = self._gateway.array(self._records.NodeState)  # without any it means every state
        return tuple(_node(each) for each in self._client.getNodeReports(every))

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

    def _credentials(self, secret: str) -> Any:
        credentials = self._jvm.org.apache.hadoop.security.Credentials()
        credentials.addSecretKey(self._jvm.org.apache.hadoop.io.Text(_SECRET), secret.encode())
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
    """Return a node for each host: the running one, where YARN remembers earlier ones."""
    return {node.host: node for node in sorted(nodes, key=lambda each: each.state == RUNNING)}


def closed(node: Node | None, *, label: str) -> str:
    """Return why YARN gives no container there, or "" if it does."""
    if node is None:
        return "YARN has no such node"
    if node.state != RUNNING:
        return f"YARN says that it is {node.state}" + (f": {node.why}" if node.why else "")
    if label and label not in node.labels:
        return f"its node hasn't the label {label}"
    return ""
