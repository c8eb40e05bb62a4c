"""Tiny models of the real kinds, built in a temporary folder: random weights, real tokenizers and real file formats."""
