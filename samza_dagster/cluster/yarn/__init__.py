"""YARN's nodes as hosts: the coordinator is an unmanaged Application Master."""
