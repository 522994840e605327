"""Waiting without a worker: the runs that wait, and who goes on."""
