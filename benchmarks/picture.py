"""The README's picture: what stopping early loses, at which cost, from tables that a study writes.

    cd docs/study/tables && python ../../../benchmarks/picture.py frontier.csv beyond_cost.csv > ../../pictures/cost.svg

One line per rule: the mean number of candidates (a doubling per step) against the mean regret, on a square-root scale.
``frontier`` has a fixed number and the rules with a threshold, ``beyond_cost`` QUIT's windows. It needs no library, and
follows the reader's light or dark mode.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
from collections.abc import Iterable
from html import escape
from pathlib import Path

RULES = {"Fixed N": ("a fixed number", "fixed"), "QUIT": ("QUIT, as published", "quit"), "loss": ("loss", "loss")}
"""Name in the table → what readers see, and its class."""
LEFT, RIGHT, TOP, BOTTOM = 64, 640, 24, 300
LEAST, MOST = 8, 512
STYLE = """\
text { font: 14px system-ui, sans-serif; fill: #444 }
.grid { stroke: #999; opacity: .3 }
polyline { fill: none; stroke-width: 3 }
polyline.fixed { stroke: #8a8a8a } polyline.quit { stroke: #d9822b } polyline.loss { stroke: #3b82d9 }
text.fixed, circle.fixed { fill: #8a8a8a } text.quit, circle.quit { fill: #d9822b }
text.loss, circle.loss { fill: #3b82d9 }
@media (prefers-color-scheme: dark) { text { fill: #ccc } }"""

Points = list[tuple[float, float]]


def read(paths: Iterable[Path], reranker: str) -> dict[str, Points]:
    """(mean N, regret) of each rule, by cost. QUIT stands in one table, all others in the other."""
    found: dict[str, Points] = {rule: [] for rule in RULES}
    for path in paths:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                name = row["rule"].partition(" w=")[0]
                counts = (name == "QUIT") != ("cost" not in row) and row["reranker"] == reranker and name in found
                if counts and LEAST <= float(row["mean_n"]) <= MOST:
                    found[name].append((float(row["mean_n"]), float(row["regret"])))
    return {rule: sorted(points) for rule, points in found.items() if points}


def draw(lines: dict[str, Points]) -> str:
    top = max(regret for points in lines.values() for _, regret in points)

    def place(size: float, regret: float) -> tuple[float, float]:
        across = math.log(size / LEAST) / math.log(MOST / LEAST)
        return LEFT + across * (RIGHT - LEFT), BOTTOM - math.sqrt(regret / top) * (BOTTOM - TOP)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 360" role="img"><style>{STYLE}</style>']
    parts.append("<title>Mean regret against the mean number of candidates</title>")
    for size in (8, 16, 32, 64, 128, 256, 512):
        x, _ = place(size, 0)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{BOTTOM}"/>')
        parts.append(f'<text x="{x:.1f}" y="{BOTTOM + 20}" text-anchor="middle">{size}</text>')
    for share in (0, 0.1, 0.25, 0.5, 1):
        _, y = place(LEAST, share * top)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 5:.1f}" text-anchor="end">{share * top:.3f}</text>')
    for number, (rule, points) in enumerate(lines.items()):
        title, kind = RULES[rule]
        placed = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in points)
        parts.append(f'<polyline class="{kind}" points="{placed}"/>')
        parts += [
            f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in itertools.starmap(place, points)
        ]
        parts.append(f'<text class="{kind}" x="{RIGHT - 170}" y="{TOP + 24 + 22 * number}">▬ {escape(title)}</text>')
    middle = (LEFT + RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{BOTTOM + 44}" text-anchor="middle">candidates per sentence, mean</text>')
    parts.append(f'<text x="{LEFT}" y="{TOP - 8}">score lost by stopping there (regret, mean)</text></svg>')
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", type=Path, metavar="CSV")
    parser.add_argument("--reranker", default="mbr:chrf")
    args = parser.parse_args()
    print(draw(read(args.tables, args.reranker)))


if __name__ == "__main__":
    main()
