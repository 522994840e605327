"""`drain_host`: who leaves a host, how, and where to."""
