"""A real YARN on this machine, with a Samza job under its own Application Master."""
