"""What a model's answer is taken to be: markers, numbers, and what is left of a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quitmt.metrics.final_answer import final_answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("She pays 3 * 4 = 12 dollars.\n#### 12", "12"),
        ("#### 12\nNo, wait.\n#### 13", "13"),
        (r"So \boxed{12}, and 12 < 100.", "12"),
        ("The answer is 12. I used 2 steps.", "12"),
        ("the final answer is: **12**", "12"),
        ("**Answer:**\n\n12 apples", "12"),
        ("The answer is 3 + 4 = 7. Check: 7 - 4 = 3.", "7"),
        ("The answer is (B).", "b"),
        ("The answer is Paris. It is the capital.", "paris"),
        ("I count 5. The answer is ", "5"),
        ("Three and four: 3, then 7", "7"),
        ("Yes.", "yes"),
        ("  No  way !", "no way"),
    ],
)
def test_where_it_is(text: str, answer: str) -> None:
    assert final_answer(text) == answer


@pytest.mark.parametrize("text", ["", "  \n", "...", "####", "So the answer is", r"\boxed{}"])
def test_no_answer(text: str) -> None:
    assert final_answer(text) is None


@pytest.mark.parametrize(
    "texts",
    [
        ["1234", "1,234", "1,234.0", "$1,234.00", "1234.", "01234", r"\boxed{1{,}234}", "€1,234 in all"],
        ["5", "$5", "5%", "5kg", "(5)", r"\boxed{\$5}", r"\boxed{5 \text{ apples}}", r"\boxed{x = 5}", "x=5", "...5"],
        ["-3", "−3", "= -3", "-$3", "$-3", "-3.00"],
        ["0.5", ".5", "0.50"],
        ["0", "-0", "0.0"],
        ["3/4", r"\frac{3}{4}", r"\boxed{\dfrac{3}{4}}"],
        ["10-3", "3", "B-3", "10 - 3"],
        ["(B)", "b", "**B**", r"\boxed{B}", r"\boxed{\text{B}}", "The answer is B!"],
    ],
)
def test_the_same_answer(texts: list[str]) -> None:
    assert len({final_answer(text) for text in texts}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("5", "-5"),
        ("5", "50"),
        ("B2", "2"),
        ("1,234", "1.234"),
        (r"\boxed{2^{10}}", r"\boxed{2^{5}}"),
        (r"\boxed{2\pi}", r"\boxed{2}"),
        (r"\boxed{(1,2)}", r"\boxed{(1,3)}"),
        (r"\boxed{New York}", r"\boxed{New Jersey}"),
        (r"\frac{3}{4}", r"\frac{1}{4}"),
    ],
)
def test_other_answers(one: str, other: str) -> None:
    assert final_answer(one) != final_answer(other)


@given(st.integers(-(10**9), 10**9), st.sampled_from(["{}", "{:,}", "{}.0", "#### {:,}.00", r"\boxed{{{}}}", "is {}."]))
def test_whole_numbers_however_they_are_written(number: int, form: str) -> None:
    assert final_answer(form.format(number)) == str(number)


@given(st.text() | st.text(alphabet="0123456789.,-$/ #{}\\answeris:="))
def test_any_text_has_one_answer_or_none(text: str) -> None:
    found = final_answer(text)
    assert found is None or found.strip()


def test_numbers_of_any_length() -> None:
    assert final_answer("1" * 5000) == "1" * 5000  # more digits than Python would turn into a number
