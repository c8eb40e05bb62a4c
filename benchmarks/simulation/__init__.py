"""A simulated continuous-batching server that drives the real engine on a virtual clock; parts of ``simulate.py``."""
