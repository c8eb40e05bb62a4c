"""The engine (pure) and its live driver."""
