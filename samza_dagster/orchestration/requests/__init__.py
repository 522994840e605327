"""A request as a step of a run: asked once, followed, told, verified."""
