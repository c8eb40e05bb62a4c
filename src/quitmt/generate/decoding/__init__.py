"""Decoding with other people's models in this process: one row for each distinct beginning, one number a choice."""
