"""The engine that asks, follows and verifies placement requests, for whichever job."""
