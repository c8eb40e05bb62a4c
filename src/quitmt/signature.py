"""Signatures: short texts that say what produced a number, so that two numbers can be compared honestly.

quit|k:8|w:8|a:0.001|n:512|gen:embedded:en-pt,t:1.2,seed:0|rerank:mbr:chrF2,c:6|v:0.1.0
"""

from __future__ import annotations

import re

from quitmt._version import __version__


def field(value: float | str) -> str:
    """A setting's value in a signature: the shortest text that parses to the same number."""
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def seeded(generator: str, seed: int | None) -> str:
    """A generator's signature for a segment with its own seed.

    >>> seeded("embedded:en-pt|t:1.2|seed:0", 7)
    'embedded:en-pt|t:1.2|seed:7'
    """
    return generator if seed is None else re.sub(r"(?<=\|)seed:-?[0-9]+", f"seed:{seed}", generator)


def of_run(rule: str, generator: str, reranker: str) -> str:
    """The signature of a run, made from those of its parts, whose separators become commas."""
    parts = (rule, f"gen:{generator.replace('|', ',')}", f"rerank:{reranker.replace('|', ',')}", f"v:{__version__}")
    return "|".join(parts)
