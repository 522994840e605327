"""Java: the fit releases, the JDK of Spark, and the class that warms a container."""
