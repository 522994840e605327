"""`python -m tests.simulation`: see `--help`."""

from tests.simulation.command import simulate

simulate()
