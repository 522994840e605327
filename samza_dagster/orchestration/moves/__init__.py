"""Jobs about one container: their plans, and the ops that act."""
