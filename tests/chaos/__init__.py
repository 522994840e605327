"""Faults without end on real containers, and outsiders who judge (`make chaos FAULTS=n`)."""
