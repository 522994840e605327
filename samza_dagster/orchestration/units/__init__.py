"""Work on several containers: units of steps, carried out several at once."""
