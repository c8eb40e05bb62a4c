"""Expensive results, which are kept: pools, rerankers' scores of them, and metrics' scores of their candidates."""
