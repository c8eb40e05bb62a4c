"""A profile as a picture: what each kind of rule loses at which cost, and which rules keep the promise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from quitmt.calibrate.drawing import UNDATED, encoded, legend_below, looks, panels, require, styled
from quitmt.calibrate.profile import Profile
from quitmt.errors import OutputError, UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def curve(profile: Profile) -> Figure:
    """Mean loss, and the share of segments that lose more than allowed. Rules that keep the promise are drawn large."""
    figure, axes = panels(1, 2, str(profile.promise), width=4.0, height=3.0)
    kinds = list(dict.fromkeys(point.rule.partition(":")[0] for point in profile.curve))
    for kind, look in zip(kinds, looks(len(kinds)), strict=True):
        own = [point for point in profile.curve if point.rule.partition(":")[0] == kind]
        sizes = [point.mean_size for point in own]
        for panel, heights in zip(axes, ([one.mean_loss for one in own], [one.exceeding for one in own]), strict=True):
            panel.plot(sizes, heights, color=look.colour, linestyle=look.line, label=kind)
            kept = [(size, height) for size, height, one in zip(sizes, heights, own, strict=True) if one.proven]
            drawn: dict[str, Any] = {"color": look.colour, "marker": look.marker, "linestyle": "", "markersize": 4}
            panel.plot(
                [size for size, _ in kept], [height for _, height in kept], label=f"{kind}, promise kept", **drawn
            )
    chosen = next(point for point in profile.curve if point.rule == profile.rule)
    for panel, height in zip(axes, (chosen.mean_loss, chosen.exceeding), strict=True):
        panel.plot([chosen.mean_size], [height], "k*", markersize=12, label=f"chosen: {chosen.rule}", linestyle="")
        panel.set_xscale("log", base=2)
        panel.xaxis.set_major_formatter("{x:g}")
        panel.set_xlabel("mean candidates a segment")
    axes[0].set_yscale("symlog", linthresh=max(profile.promise.max_loss / 1e3, 1e-9))
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel("mean loss, in units of the score")
    axes[1].axhline(profile.promise.risk, color="#777777", linewidth=0.8)
    axes[1].set_ylabel(f"share that loses more than {profile.promise.max_loss:.3g}")
    legend_below(figure, axes)
    return figure


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
