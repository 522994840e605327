"""Asset checks of what an outsider can see: the invariants and the lag objectives."""
