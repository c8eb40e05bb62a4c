"""One style for all figures, one colour per rule, and how figures are saved.

Invariants:
- Figures work in black and white: series differ in marker and line style, bars in hatch, never in colour alone.
- No global state: figures are made without pyplot, and the style is set only while a figure is drawn or saved.
- The same arrays give the same bytes: files have no dates, and the ids within an SVG come from a fixed salt.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from quitmt.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9,
    "figure.dpi": 100,
    "figure.titlesize": 11,
    "font.family": "sans-serif",
    "font.size": 9,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 5,
    "pdf.fonttype": 42,
    "savefig.dpi": 160,
    # Text stays text, so readers can search it, have it read aloud, and see it in their own font.
    "svg.fonttype": "none",
    "svg.hashsalt": "quitmt",
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}

UNDATED: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
"""File formats, with the metadata that is left out."""

PANEL_WIDTH, PANEL_HEIGHT = 3.2, 2.5
"""Inches."""

MARKERS = "os^DvPX<>"
LINES: tuple[Any, ...] = (
    "-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (7, 2, 1, 2)), (0, (3, 3)),
)  # fmt: skip
"""Line styles: matplotlib's names, or dash lengths in points."""

COLOURS = {
    "Unaccelerated": "#000000",
    "all": "#000000",
    "Fixed": "#777777",
    "QUIT": "#0072b2",
    "loss": "#d55e00",
    "headroom": "#cc79a7",
    "PruneMBR": "#56b4e9",
    "PMBR": "#b8860b",
    "CentroidMBR": "#8c564b",
    "Aggregate": "#5e3c99",
}
OTHERS = ("#a6761d", "#1f78b4", "#b2182b", "#4d9221", "#762a83", "#009e73")
"""Colours of all other rules; a rule's name decides which one it gets."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Look:
    """The colour, marker and line of one series."""

    colour: str
    marker: str
    line: Any

    def of(self, label: str) -> dict[str, Any]:
        """The keywords for a line with this label."""
        return {"color": self.colour, "marker": self.marker, "linestyle": self.line, "label": label}


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
    """The rule's colour; ``variant`` distinguishes series of one rule by marker and line, which repeat after nine."""
    return Look(colour(rule), MARKERS[variant % len(MARKERS)], LINES[variant % len(LINES)])


def require() -> None:
    """Raise an error if matplotlib is missing. Callers check this before they start hours of work."""
    if find_spec("matplotlib") is None:
        raise MissingExtra("figures need matplotlib", hint="pip install 'quitmt[lab]'")


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Make a function draw in our style, whatever the user's own settings are."""

    @wraps(draw)
    def in_style(*args: P.args, **settings: P.kwargs) -> T:
        require()
        from matplotlib import style

        with style.context(STYLE, after_reset=True):
            return draw(*args, **settings)

    return in_style


def panels(
    rows: int, columns: int, title: str, *, width: float = PANEL_WIDTH, height: float = PANEL_HEIGHT, **sharing: Any
) -> tuple[Figure, list[Axes]]:
    """A figure with its panels, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(4.5, width * columns), height * rows + 0.5), layout="constrained")
    found = figure.subplots(rows, columns, squeeze=False, **sharing)
    figure.suptitle(title)
    return figure, list(found.flat)


def legend_below(figure: Figure, axes: list[Axes], columns: int = 4) -> None:
    """One legend for all panels, with each series once."""
    named: dict[str, Any] = {}
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    figure.legend(list(named.values()), list(named), loc="outside lower center", ncols=min(columns, len(named)))


@styled
def encoded(figure: Figure, form: str) -> bytes:
    """A figure as ``svg``, ``pdf`` or ``png``."""
    content = BytesIO()
    figure.savefig(content, format=form, metadata=UNDATED[form])
    return content.getvalue()


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write NAME.svg, NAME.pdf and NAME.png."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for form in UNDATED:
        path = folder / f"{name}.{form}"
        path.write_bytes(encoded(figure, form))
        paths.append(path)
    return paths
