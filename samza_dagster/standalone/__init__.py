"""Processors that come and go, coordinated over ZooKeeper as Samza's `ZkJobCoordinator` (1.8) does.

`group` is a processor's view of the others, `layout` its form in ZooKeeper. `processor` decides
on the leader, on what is published, and when work stops and starts. All of it is pure.
"""
