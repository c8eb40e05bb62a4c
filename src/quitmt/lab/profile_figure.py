"""The picture of a profile: how much each kind of rule loses at each cost, and which rules keep the guarantee."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quitmt.calibrate.profile import Guarantee, Point, Profile
from quitmt.errors import OutputError, UsageError
from quitmt.lab.drawing import UNDATED, encoded, legend_below, look, panels, require, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GREY: dict[str, Any] = {"color": "#777777", "linewidth": 0.8}


@styled
def curve(profile: Profile) -> Figure:
    """A panel with the mean loss of score, then panels for the guarantee: the share of segments that lose more than
    allowed, or the difference in quality by each metric. Rules that keep the guarantee have markers."""
    guarantee = profile.guarantee
    views: list[Callable[[Point], float]] = [lambda point: point.mean_loss]
    if isinstance(guarantee, Guarantee):
        views.append(lambda point: point.exceeding or 0.0)
    else:
        views += [partial(_quality, metric) for metric in guarantee.metrics]
    figure, axes = panels(1, len(views), str(guarantee), width=4.0, height=3.0)
    for number, kind in enumerate(dict.fromkeys(point.rule.partition(":")[0] for point in profile.curve)):
        own = [point for point in profile.curve if point.rule.partition(":")[0] == kind]
        kept = [point for point in own if point.proven]
        style = look(kind, number)
        for panel, view in zip(axes, views, strict=True):
            line = [one.mean_size for one in own], [view(one) for one in own]
            panel.plot(*line, color=style.colour, linestyle=style.line, label=kind)
            points = {**style.of(f"{kind}, kept"), "linestyle": "", "markersize": 4}
            panel.plot([one.mean_size for one in kept], [view(one) for one in kept], **points)
    chosen = next(point for point in profile.curve if point.rule == profile.rule)
    for panel, view in zip(axes, views, strict=True):
        panel.plot([chosen.mean_size], [view(chosen)], "k*", markersize=12, label=f"chosen: {chosen.rule}")
        panel.set_xscale("log", base=2)
        panel.xaxis.set_major_formatter("{x:g}")
        panel.set_xlabel("mean candidates per segment")
    largest = max(point.mean_loss for point in profile.curve)
    limit = guarantee.max_loss if isinstance(guarantee, Guarantee) else largest
    axes[0].set_yscale("symlog", linthresh=max(limit / 1e3, 1e-9))
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel("mean loss, in units of the score")
    if isinstance(guarantee, Guarantee):
        axes[1].axhline(guarantee.risk, **GREY)
        axes[1].set_ylabel(f"share of segments that lose more than {guarantee.max_loss:.3g}")
    else:
        for panel, metric in zip(axes[1:], guarantee.metrics, strict=True):
            for margin in (-guarantee.margin,) if guarantee.not_worse else (-guarantee.margin, guarantee.margin):
                panel.axhline(margin, **GREY)
            panel.set_ylabel(f"{metric}: rule − whole pool, in sd")
    legend_below(figure, axes)
    return figure


def _quality(metric: str, point: Point) -> float:
    return (point.quality or {})[metric]


def check(path: str) -> str:
    """The format that the path's ending names; raises the errors that ``save`` would raise later."""
    form = Path(path).suffix.removeprefix(".").lower()
    if form not in UNDATED:
        endings = ", ".join(f".{one}" for one in UNDATED)
        raise UsageError(f"{path} does not name a kind of picture", hint=f"end it in {endings}")
    require()
    return form


def save(profile: Profile, path: str) -> None:
    content = encoded(curve(profile), check(path))
    try:
        Path(path).write_bytes(content)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None
