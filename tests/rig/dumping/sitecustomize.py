"""Python imports this at its start from `PYTHONPATH`: SIGUSR1 has a process write its stacks.

To its stderr, of all its threads, by C code that waits for no lock of Python's.
"""

import faulthandler
import signal

faulthandler.register(signal.SIGUSR1)
