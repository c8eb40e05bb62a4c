"""The figure: throughput and latency against segments in flight, one column a case. Readable in black and white."""

from __future__ import annotations

from collections.abc import Sequence

from simulation.study import SCHEDULINGS, WINDOW, Case, Study

STYLES = {
    SCHEDULINGS[0]: {"color": "0.55", "marker": "s", "linestyle": "--"},
    SCHEDULINGS[1]: {"color": "0.0", "marker": "o", "linestyle": "-"},
    SCHEDULINGS[2]: {"color": "0.3", "marker": "^", "linestyle": "-."},
    "full budget at once": {"color": "0.0", "marker": "x", "linestyle": ":"},
}


def draw(path: str, study: Study, cases: Sequence[tuple[Case, Case, str]], in_flight: Sequence[int]) -> None:
    """Each case comes with its full-budget baseline and a title."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    plain = FuncFormatter(lambda value, _: f"{value:,.4g}")
    figure, axes = plt.subplots(
        2, len(cases), figsize=(4.6 * len(cases), 6.4), sharex=True, sharey="row", squeeze=False
    )
    for column, (case, full, title) in enumerate(cases):
        lines = [(name, case, name) for name in SCHEDULINGS] + [("full budget at once", full, WINDOW)]
        for name, shown, scheduling in lines:
            results = [study.run(shown, scheduling, count) for count in in_flight]
            style = dict(STYLES[name], label=name, markersize=5, linewidth=1.4)
            axes[0, column].plot(in_flight, [result.rate for result in results], **style)
            means = [sum(result.latencies) / len(result.latencies) for result in results]
            axes[1, column].plot(in_flight, means, **style)
        axes[0, column].set_title(title, fontsize=10)
        axes[1, column].set_xlabel("segments in flight")
    axes[0, 0].set_ylabel("segments a second")
    axes[1, 0].set_ylabel("mean latency of a segment, seconds")
    for ax in axes.flat:
        ax.set_xscale("log", base=4)
        ax.set_yscale("log")
        ax.set_xticks(in_flight)
        ax.xaxis.set_major_formatter(plain)
        ax.xaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.yaxis.set_major_formatter(plain)
        ax.grid(True, color="0.9", linewidth=0.8)
        ax.set_axisbelow(True)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    for ax in axes[0]:
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes[0, 0].legend(frameon=False, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
