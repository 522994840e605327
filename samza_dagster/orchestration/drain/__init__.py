"""`drain_host`: the job that empties a host."""
