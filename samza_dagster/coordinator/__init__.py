"""The running job coordinator: an event loop around the reducer, one writer, one transaction a step."""
