"""Java: which releases are fit, and the class that warms a container."""
