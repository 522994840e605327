"""Processors that come and go, coordinated over ZooKeeper as Samza's `ZkJobCoordinator` (1.8) does.

`group` is what a processor sees of the others, `layout` how that lies in ZooKeeper, `processor`
decides: which one leads, what is published, when work stops and starts. All of it is pure.
"""
