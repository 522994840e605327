"""`placement_history`: each outcome of a request as an event, once."""
