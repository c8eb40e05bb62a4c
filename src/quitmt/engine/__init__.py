"""The engine: a pure state machine, and the driver and session that run it live."""
