"""The agent's command line, with the standard library alone.

Started as `python -I agent.pyz`, the one file of `samza-dagster agent build`, or from a
package tree as `python -I <path>/agent/main.py`.

Exit codes: 0 done, 1 something lives on, another agent runs, a record isn't understood, or a
thread has died, 2 bad usage, or a directory can't be written.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import List

if __name__ == "__main__":
    # `-I` leaves the script's place off the path. Behind the standard library, which nothing
    # beside us may shadow, and before any other copy of this package that is installed.
    _packages = [i for i, p in enumerate(sys.path) if p.endswith("-packages")]
    sys.path.insert(min(_packages, default=len(sys.path)), str(Path(__file__).resolve().parents[2]))

from samza_dagster.agent import metrics
from samza_dagster.agent.agent import AgentSettings, AlreadyRunning, ThreadDied, run
from samza_dagster.agent.container_log import KEPT_MB
from samza_dagster.agent.files import RecordError
from samza_dagster.agent.logs import FORMATS, log_as
from samza_dagster.agent.parking import PARKED_S
from samza_dagster.agent.program import Replaced, archive
from samza_dagster.agent.protocol import ProtocolError, check_name
from samza_dagster.agent.stop_all import stop_all
from samza_dagster.version import __version__


def _parser() -> argparse.ArgumentParser:
    one_file = archive()
    start = "samza-dagster agent run" if one_file is None else "python3 -I " + one_file.name
    parser = argparse.ArgumentParser(
        prog="agent",
        description="One host's agent of samza_dagster.",
        epilog="Example: " + start + " --directory /var/lib/samza-agent --host $(hostname) "
        "--memory-mb 8192 --cores 4 --coordinator-url-file coordinator.url --token-file token. "
        "@FILE reads arguments from a file, one a line.",
        fromfile_prefix_chars="@",
    )
    parser.add_argument("--version", action="version", version="%(prog)s " + __version__)
    parser.add_argument("--directory", type=Path, required=True, help="its records; one agent each")
    parser.add_argument("--stop-all", action="store_true", help="stop all on record, confirm, exit")
    parser.add_argument("--host", help="the name that it registers under")
    parser.add_argument("--memory-mb", type=int, help="MiB for containers")
    parser.add_argument("--cores", type=int, help="cores for containers")
    parser.add_argument("--coordinator-url-file", type=Path, help="where the coordinator's URL is")
    parser.add_argument(
        "--token-file",
        type=Path,
        default=os.environ.get("HADOOP_TOKEN_FILE_LOCATION"),
        help="where the job's token is; by default $HADOOP_TOKEN_FILE_LOCATION, as YARN gives it",
    )
    parser.add_argument("--state-dir", type=Path, help="LOGGED_STORE_BASE_DIR; <directory>/state")
    parser.add_argument("--fault-domain", default="", help="what fails together: rack, zone, power")
    parser.add_argument("--lease-s", type=float, default=3600.0, help="takes no longer lease")
    parser.add_argument(
        "--parked-s", type=float, default=PARKED_S, help="how long a launch waits for its start"
    )
    parser.add_argument(
        "--container-log-mb", type=int, default=KEPT_MB, help="MiB kept of a container's output"
    )
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        default=os.environ.get("SAMZA_DAGSTER_LOG_FORMAT", FORMATS[0]),
        help="of the agent's own log; by default what SAMZA_DAGSTER_LOG_FORMAT says, else text",
    )
    parser.add_argument(
        "--metrics-listen",
        type=metrics.address_of,
        metavar="HOST:PORT",
        help="serve /metrics (OpenMetrics) at this address, without a token; by default nowhere",
    )
    return parser


def main(arguments: List[str]) -> int:
    """Run an agent until SIGTERM, or stops all that one has on record."""
    try:
        return _main(arguments)
    except RecordError as error:
        print("agent: {}".format(error), file=sys.stderr)
        return 1


def _main(arguments: List[str]) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    directory: Path = given.directory.resolve()
    if given.stop_all:
        result = stop_all(directory)
        print(json.dumps(result))
        return 1 if result["alive"] else 0
    needed = ("host", "memory_mb", "cores", "coordinator_url_file", "token_file")
    missing = ["--" + name.replace("_", "-") for name in needed if getattr(given, name) is None]
    if missing:
        parser.error("needed to run: {}".format(", ".join(missing)))
    try:
        check_name(given.host, "--host")
    except ProtocolError as error:
        parser.error(str(error))
    if len(given.fault_domain) > 500:
        parser.error("--fault-domain has at most 500 characters")
    if given.container_log_mb < 1:
        parser.error("--container-log-mb is at least 1")
    if min(given.memory_mb, given.cores) < 1 or min(given.lease_s, given.parked_s) <= 0:
        parser.error("--memory-mb, --cores, --lease-s and --parked-s are more than 0")
    state_dir: Path = (given.state_dir or directory / "state").resolve()
    for place in (directory, state_dir):
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            parser.error("{} can't be written: {}".format(place, error.strerror))
    log_as(given.log_format, {"part": "agent", "host": given.host})
    try:
        run(
            AgentSettings(
                given.host,
                directory,
                state_dir,
                given.memory_mb,
                given.cores,
                given.coordinator_url_file,
                given.token_file,
                given.lease_s,
                given.fault_domain,
                given.parked_s,
                given.container_log_mb,
                given.metrics_listen,
            )
        )
    except AlreadyRunning:
        print("agent: another agent has {}".format(directory), file=sys.stderr)
        return 1
    except ThreadDied as error:
        print("agent: its thread {} has died, start it again".format(error), file=sys.stderr)
        return 1
    except Replaced as error:
        print("agent: replaced while it started, start it again: {}".format(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
