"""Local servers for tests and benchmarks."""
