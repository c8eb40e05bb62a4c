"""One style for all figures, and how they are saved.

Invariants:
- Black and white is enough: series differ in marker and line style, bars in hatch, not in colour alone.
- No global state: figures are made without pyplot, and the style is set only while one is drawn or saved.
- The same arrays give the same bytes: no dates, and the ids within an SVG come from a fixed salt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from importlib.util import find_spec
from io import BytesIO
from itertools import cycle, islice
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
    # Text stays text: it can be searched, read aloud, and set in the reader's own font.
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

PANEL_WIDTH, PANEL_HEIGHT = 3.2, 2.5
"""Inches."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Look:
    """How one series is told from the others."""

    colour: str
    marker: str
    line: str | tuple[int, tuple[int, ...]]
    """As matplotlib names them, or its dashes in points."""

    def of(self, label: str) -> dict[str, Any]:
        """What a line with this label is drawn with."""
        return {"color": self.colour, "marker": self.marker, "linestyle": self.line, "label": label}


_LOOKS = [
    Look("#000000", "o", "-"),
    Look("#0072b2", "s", "--"),
    Look("#d55e00", "^", "-."),
    Look("#009e73", "D", ":"),
    Look("#cc79a7", "v", (0, (5, 1))),
    Look("#7f7f7f", "P", (0, (3, 1, 1, 1))),
    Look("#56b4e9", "X", (0, (1, 1))),
    Look("#8c564b", "<", (0, (7, 2, 1, 2))),
    Look("#5e3c99", ">", (0, (3, 3))),
]


def looks(count: int) -> list[Look]:
    """One for each series; they repeat after nine."""
    return list(islice(cycle(_LOOKS), count))


def require() -> None:
    """Raise if nothing can be drawn: for those who would otherwise find out after hours."""
    if find_spec("matplotlib") is None:
        raise MissingExtra("figures need matplotlib", hint="pip install 'quitmt[lab]'")


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Draw in our style, whatever the reader's own settings are."""

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
    """One legend for all panels, each series once."""
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
    """As NAME.svg, NAME.pdf and NAME.png."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for form in UNDATED:
        path = folder / f"{name}.{form}"
        path.write_bytes(encoded(figure, form))
        paths.append(path)
    return paths
