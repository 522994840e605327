"""Waiting without a worker: what is waited for, and who goes on."""
