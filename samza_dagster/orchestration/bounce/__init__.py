"""Rolling bounces: the order, the loop, the schedule."""
