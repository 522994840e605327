"""Pictures and tables of runs and assets: the timeline, the map of hosts and containers."""
