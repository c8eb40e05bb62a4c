"""Whether live runs did what replays of the same pools say."""

from __future__ import annotations

from dataclasses import dataclass

from quitmt.lab.results import Results


@dataclass(frozen=True, slots=True)
class Agreement:
    """Whether live runs did what replays of the same pools say, segment by segment."""

    reranker: str
    runs: int
    segments: int
    differing: int

    def sentence(self) -> str:
        said = f"{self.reranker}: {self.runs} rules were run live on {self.segments} segments"
        if not self.differing:
            return f"{said} and used the same candidates and chose the same translations as in the replay."
        return (
            f"{said}; in {self.differing} of {self.runs * self.segments} cases the number of candidates or the choice "
            f"was another than in the replay: sampling or scoring is not reproducible here."
        )


def agreements(results: Results) -> list[Agreement]:
    found = []
    for spec, runs in results.live.items():
        own = results.replays[spec]
        replayed = {one.name: one for one in (own.unaccelerated, *own.windows, *own.beyond)}
        differing = 0
        for live in runs:
            rule, count = replayed[live.rule], len(live.sizes)
            same = (rule.size[:count] == live.sizes) & (rule.index[:count] == live.indices)
            differing += int((~same).sum())
        found.append(Agreement(spec, len(runs), len(runs[0].sizes), differing))
    return found
