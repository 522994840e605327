"""What runs and assets show: tables, the picture of a timeline, the map of hosts and containers."""
