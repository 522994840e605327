"""The entry of the one-file agent: the `__main__` that `samza-dagster agent build` packs.

`--warden <directory> <descriptor> <descriptor>` makes it a warden; only an agent passes that.
`--hold` makes it a hold, in a container of the cluster's engine.
Every Python 3 can read this file, so that an old one reports what is missing.
"""

import os
import sys


def main() -> int:
    """Run an agent, a warden or a hold; return its exit code, 2 under a Python that is too old."""
    if sys.version_info < (3, 8):
        sys.stderr.write(
            "agent: Python 3.8 or later is needed, this is {}\n".format(sys.version.split()[0])
        )
        return 2
    if not sys.flags.isolated:  # PYTHONPATH comes before the standard library
        os.execv(sys.executable, [sys.executable, "-I", *sys.argv])  # noqa: S606 - no shell
    if sys.argv[1:2] == ["--warden"]:
        from samza_dagster.agent import warden

        return warden.main(sys.argv[2:])
    if sys.argv[1:2] == ["--hold"]:
        from samza_dagster.agent import holds

        return holds.main(sys.argv[2:])
    from samza_dagster.agent import main as agent

    return agent.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
