"""The running job coordinator: an event loop around the heart, one writer, one transaction a step."""
