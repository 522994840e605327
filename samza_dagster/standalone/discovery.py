"""Find the groups in ZooKeeper, for observers."""

from __future__ import annotations

import re
from contextlib import suppress

from kazoo.exceptions import NoNodeError

from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.zookeeper import ZooKeeper, reached
from samza_dagster.standalone.layout import GroupPaths

_GROUP = re.compile(r"(.+)-([^-]+)-2\.0-coordinationData")


def find_group(zookeeper: ZooKeeper, job_name: str, job_id: str) -> GroupPaths:
    """Return the group of a job, whatever its application's name.

    Raises `InvalidInput` where no such group is, `Unreachable`.
    """
    own = GroupPaths.of({"job.name": job_name, "job.id": job_id}).root
    wanted = own.rpartition("/")[2]
    roots = [root for root in _roots(zookeeper) if root.rpartition("/")[2] == wanted]
    if not roots or (len(roots) > 1 and own not in roots):
        raise InvalidInput(
            f"the group of job {job_name}, id {job_id}, in ZooKeeper",
            seen=", ".join(roots)
            or f"no /app-…/{wanted}: no processor of it has ever registered there",
            fix="job.name and job.id as its processors have them, and ZooKeeper's address with its chroot",
        )
    return GroupPaths(own if own in roots else roots[0])


def known_groups(zookeeper: ZooKeeper) -> list[str]:
    """Return the jobs that have a group, each as `<name>/<id>`. Raises `Unreachable`."""
    found = (_GROUP.fullmatch(root.rpartition("/")[2]) for root in _roots(zookeeper))
    return sorted({f"{group[1]}/{group[2]}" for group in found if group is not None})


def _roots(zookeeper: ZooKeeper) -> list[str]:
    with reached("look for groups"):
        apps = [name for name in zookeeper.get_children("/") if name.startswith("app-")]
        found: list[str] = []
        for app in apps:
            with suppress(NoNodeError):
                names = zookeeper.get_children(f"/{app}")
                found += [f"/{app}/{name}" for name in names if _GROUP.fullmatch(name)]
    return sorted(found)
