"""A profile as a picture: what each kind of rule loses at which cost, and which rules keep the guarantee."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quitmt.calibrate.drawing import UNDATED, encoded, legend_below, looks, panels, require, styled
from quitmt.calibrate.profile import Guarantee, Point, Profile, QualityGuarantee
from quitmt.errors import OutputError, UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@styled
def curve(profile: Profile) -> Figure:
    """Mean loss of score, and what the guarantee is about: the share of segments that lose more than allowed, or the
    difference in quality by each metric. Rules that keep the guarantee are drawn large."""
    views: list[Callable[[Point], float]] = [lambda point: point.mean_loss, *_guaranteed(profile.guarantee)]
    figure, axes = panels(1, len(views), str(profile.guarantee), width=4.0, height=3.0)
    kinds = list(dict.fromkeys(point.rule.partition(":")[0] for point in profile.curve))
    for kind, look in zip(kinds, looks(len(kinds)), strict=True):
        own = [point for point in profile.curve if point.rule.partition(":")[0] == kind]
        kept = [point for point in own if point.proven]
        drawn: dict[str, Any] = {"color": look.colour, "marker": look.marker, "linestyle": "", "markersize": 4}
        for panel, view in zip(axes, views, strict=True):
            line = [one.mean_size for one in own], [view(one) for one in own]
            panel.plot(*line, color=look.colour, linestyle=look.line, label=kind)
            panel.plot([one.mean_size for one in kept], [view(one) for one in kept], label=f"{kind}, kept", **drawn)
    chosen = next(point for point in profile.curve if point.rule == profile.rule)
    for panel, view in zip(axes, views, strict=True):
        panel.plot([chosen.mean_size], [view(chosen)], "k*", markersize=12, label=f"chosen: {chosen.rule}")
        panel.set_xscale("log", base=2)
        panel.xaxis.set_major_formatter("{x:g}")
        panel.set_xlabel("mean candidates a segment")
    largest = max(point.mean_loss for point in profile.curve)
    limit = profile.guarantee.max_loss if isinstance(profile.guarantee, Guarantee) else largest
    axes[0].set_yscale("symlog", linthresh=max(limit / 1e3, 1e-9))
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel("mean loss, in units of the score")
    _label(axes[1:], profile.guarantee)
    legend_below(figure, axes)
    return figure


def _guaranteed(guarantee: Guarantee | QualityGuarantee) -> list[Callable[[Point], float]]:
    """What each panel after the first one shows."""
    if isinstance(guarantee, Guarantee):
        return [lambda point: point.exceeding or 0.0]

    def by(metric: str) -> Callable[[Point], float]:
        return lambda point: (point.quality or {})[metric]

    return [by(metric) for metric in guarantee.metrics]


def _label(axes: Sequence[Axes], guarantee: Guarantee | QualityGuarantee) -> None:
    grey: dict[str, Any] = {"color": "#777777", "linewidth": 0.8}
    if isinstance(guarantee, Guarantee):
        axes[0].axhline(guarantee.risk, **grey)
        axes[0].set_ylabel(f"share that loses more than {guarantee.max_loss:.3g}")
        return
    for panel, metric in zip(axes, guarantee.metrics, strict=True):
        panel.axhline(-guarantee.margin, **grey)
        if not guarantee.not_worse:
            panel.axhline(guarantee.margin, **grey)
        panel.set_ylabel(f"{metric}: rule − whole pool, in sd")


def check(path: str) -> None:
    """Raise what ``save`` would raise later."""
    form_of(path)
    require()


def form_of(path: str) -> str:
    form = Path(path).suffix.removeprefix(".").lower()
    if form not in UNDATED:
        raise UsageError(
            f"{path} names no kind of picture", hint=f"end it in {', '.join(f'.{one}' for one in UNDATED)}"
        )
    return form


def save(profile: Profile, path: str) -> None:
    content = encoded(curve(profile), form_of(path))
    try:
        Path(path).write_bytes(content)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None
