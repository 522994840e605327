"""A real YARN on this machine, and a Samza job under its own Application Master in it."""
