"""How soon looks of `auto_failover` follow each other; what definitions load of it, apart from its memory."""

SAME_LOOK_MS = 400
"""Two looks closer together than this count once."""
