"""`auto_failover`: what it sees, decides and asks, and the run that follows."""
