"""The one contract of utilities, as a class: a test class with a fixture ``utility`` inherits its tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from quitmt.protocols import Utility
from tests.contract.rerankers import SEGMENTS


class UtilityContract:
    """What every utility guarantees; its fixture is ``utility``."""

    TEXTS = ("o gato", "o gato velho", "", "casa", "a casa nova", "o")

    def assert_equal(self, found: object, expected: object) -> None:
        np.testing.assert_array_equal(found, expected)

    def encoded(self, utility: Utility[Any]) -> Any:
        arena = utility.open(SEGMENTS[0])
        utility.encode([(arena, self.TEXTS)])
        return arena

    def test_backward_is_forward_the_other_way_round(self, utility: Utility[Any]) -> None:
        forward, backward = utility.compare(self.encoded(utility), range(6), range(6))
        assert forward.shape == backward.shape == (6, 6)
        self.assert_equal(backward, forward.T)

    def test_any_part_of_the_square_can_be_compared(self, utility: Utility[Any]) -> None:
        arena = self.encoded(utility)
        whole, reverse = utility.compare(arena, range(6), range(6))
        for rows, columns in ((range(2, 4), range(6)), (range(4, 6), range(4)), (range(3), range(1, 5))):
            forward, backward = utility.compare(arena, rows, columns)
            self.assert_equal(forward, whole[np.ix_(rows, columns)])
            self.assert_equal(backward, reverse[np.ix_(rows, columns)])

    def test_encoding_in_parts_and_with_others_changes_nothing(self, utility: Utility[Any]) -> None:
        arena, other = utility.open(SEGMENTS[0]), utility.open(SEGMENTS[1])
        utility.encode([(arena, self.TEXTS[:2]), (other, self.TEXTS[3:])])
        utility.encode([(arena, self.TEXTS[2:])])
        expected = utility.compare(self.encoded(utility), range(6), range(6))
        self.assert_equal(utility.compare(arena, range(6), range(6)), expected)
