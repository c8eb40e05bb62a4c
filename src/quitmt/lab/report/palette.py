"""One colour per rule in all figures; what else a series stands for is told by its marker and its line."""

from __future__ import annotations

import re
import zlib

from quitmt.calibrate.drawing import Look, looks

COLOURS = {
    "Unaccelerated": "#000000",
    "all": "#000000",
    "Fixed": "#777777",
    "QUIT": "#0072b2",
    "loss": "#d55e00",
    "race": "#009e73",
    "headroom": "#cc79a7",
    "PruneMBR": "#56b4e9",
    "PMBR": "#b8860b",
    "CentroidMBR": "#8c564b",
    "Aggregate": "#5e3c99",
}
OTHERS = ("#a6761d", "#1f78b4", "#b2182b", "#4d9221", "#762a83")
"""For rules of the user's own, by name."""


def family(rule: str) -> str:
    """A rule's name without its settings.

    >>> [family(rule) for rule in ("QUIT w=8", "loss:most=0.0005", "Fixed-N* (w=4)", "Fixed N=16", "all 512")]
    ['QUIT', 'loss', 'Fixed', 'Fixed', 'all']
    """
    return "Fixed" if rule.startswith("Fixed") else re.split("[ :,]", rule, maxsplit=1)[0]


def colour(rule: str) -> str:
    name = family(rule)
    return COLOURS.get(name) or OTHERS[zlib.crc32(name.encode()) % len(OTHERS)]


def look(rule: str, variant: int = 0) -> Look:
    """The rule's colour; ``variant`` tells series of one rule apart."""
    own = looks(variant + 1)[variant]
    return Look(colour(rule), own.marker, own.line)
