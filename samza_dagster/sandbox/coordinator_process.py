"""The sandbox's job coordinator: a process of its own, and its `/status` over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import sys
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.errors import Unreachable
from samza_dagster.metadata.connection import CLIENT_CONFIG
from samza_dagster.sandbox import process
from samza_dagster.sandbox.logins import LoginFiles
from samza_dagster.sandbox.process import ProcessRecord

ROLE = "coordinator"


class CoordinatorFiles:
    """The files that coordinator and agents share, below one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = directory / "job.properties"
        self.launch = directory / "launch.json"
        self.token = directory / "token"
        self.url = directory / "coordinator.url"
        """The leading coordinator writes its URL here."""
        self.log = directory / "coordinator.log"
        self.logins = LoginFiles(directory)
        """The coordinator's login at a broker with an authorizer."""

    def write(self, config: Mapping[str, str], launch: LaunchTemplate) -> None:
        """Write config and template, and a token when there is none yet."""
        # The token is readable by its owner alone.
        self.write_job(config, launch)
        if not self.token.exists():
            self.token.touch(mode=0o600)
            self.token.write_text(secrets.token_urlsafe(32))

    def write_job(self, config: Mapping[str, str], launch: LaunchTemplate) -> None:
        """Write config and template alone."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config.write_text("".join(f"{key}={value}\n" for key, value in sorted(config.items())))
        launch.write(self.launch)

    @property
    def arguments(self) -> list[str]:
        """Return the arguments of `samza-dagster coordinator run`."""
        return [
            *("--config", str(self.config), "--launch", str(self.launch)),
            *("--token-file", str(self.token), "--url-file", str(self.url)),
        ]

    @property
    def command(self) -> list[str]:
        """Return the command that runs the coordinator."""
        return [
            sys.executable,
            "-m",
            "samza_dagster.cli.main",
            "coordinator",
            "run",
            *self.arguments,
        ]

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of its process, with its login at the broker if it has one."""
        login = self.logins.client_config
        own = {CLIENT_CONFIG: str(login)} if login.exists() else {}
        return {**os.environ, **own}

    def start(self, *, on_spawn: Callable[[ProcessRecord], None] | None = None) -> ProcessRecord:
        """Start the coordinator; a second one takes over from the first."""
        return process.spawn(
            ROLE, self.command, log=self.log, environment=self.environment, on_spawn=on_spawn
        )

    def read_token(self) -> str:
        """Return the agents' token; raise `OSError`."""
        return self.token.read_text().strip()

    def coordinator_url(self) -> str | None:
        """Return the URL that the last leader wrote, if any did."""
        try:
            return self.url.read_text().strip() or None
        except OSError:
            return None

    def status(self, timeout_s: float = 5.0) -> dict[str, Any]:
        """Return the leader's `GET /status`; raise `Unreachable`."""
        url = self.coordinator_url()
        if url is None:
            raise Unreachable(
                "the coordinator", seen=f"no URL in {self.url}", fix=f"see {self.log}"
            )
        try:
            token = self.read_token()
            request = urllib.request.Request(  # noqa: S310 - the sandbox's own http address
                f"{url}/status", headers={"Authorization": f"Bearer {token}"}
            )
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310
                return json.load(answer)
        except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
            raise Unreachable(
                "the coordinator", seen=f"{url}: {error}", fix=f"see {self.log}"
            ) from error
