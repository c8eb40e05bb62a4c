"""Prompts as data: templates in files, what they are filled with, and how outputs are cleaned."""
