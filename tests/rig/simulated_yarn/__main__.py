"""`python -m tests.rig.simulated_yarn SOCKET --nodes N …`: the cluster, called by the socket's connections.

Each message is the name of a method with its arguments and what py4j has cost its process by now;
the answer is `(True, value)` or `(False, text)`.
"""

from __future__ import annotations

import argparse
import logging
import threading
from multiprocessing.connection import Connection, Listener
from pathlib import Path

from tests.rig.simulated_yarn.cluster import SimulatedCluster


def serve(cluster: SimulatedCluster, connection: Connection) -> None:
    """Answer until the other side is gone."""
    while True:
        try:
            name, arguments, py4j_s = connection.recv()
        except (EOFError, ConnectionError):
            return
        cluster.py4j_s = max(cluster.py4j_s, py4j_s)
        try:
            answer = (True, getattr(cluster, name)(*arguments))
        except Exception as error:
            logging.exception("%s", name)
            answer = (False, f"{type(error).__name__}: {error}")
        connection.send(answer)


def main() -> None:
    """Until it is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("socket", type=Path)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--memory-mb", type=int, required=True)
    parser.add_argument("--cores", type=int, required=True)
    asked = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    cluster = SimulatedCluster(
        asked.socket.parent / "nodes",
        nodes=asked.nodes,
        memory_mb=asked.memory_mb,
        cores=asked.cores,
    )
    with Listener(str(asked.socket), family="AF_UNIX", backlog=64) as listener:
        while True:
            connection = listener.accept()
            threading.Thread(target=serve, args=(cluster, connection), daemon=True).start()


if __name__ == "__main__":
    main()
