"""Scores translations against references, and compares systems."""
