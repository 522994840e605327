"""Rolling bounces: the order, the loop, the schedule, and how a person steers one."""
