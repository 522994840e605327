"""Jobs about one container: its plan, the phases of its move, its extra standby, and what ends a wait."""
