"""N-best lists as the decoders Moses and Marian write them: a line per candidate, segments counted from 0.

0 ||| text ||| Score= 0.61 Count= 3 LogProbability= -7.25 ||| 0.61
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quitmt.files.outputs import one_line
from quitmt.types import Ranked

BAR = "|||"


def nbest_lines(number: int, nbest: Iterable[Ranked]) -> Iterator[str]:
    """Those of one segment, the best first; none for a blank one.

    >>> next(nbest_lines(4, [Ranked(2, "um ||| dois", 0.5, 3)]))
    '4 ||| um | | | dois ||| Score= 0.5 Count= 3 ||| 0.5'
    """
    for one in nbest:
        features = f"Score= {one.score!r} Count= {one.count}"
        if one.log_probability is not None:
            features += f" LogProbability= {one.log_probability!r}"
        text = one_line(one.text).replace(BAR, "| | |")
        yield f"{number} {BAR} {text} {BAR} {features} {BAR} {one.score!r}"
