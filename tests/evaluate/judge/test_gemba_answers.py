"""What judges answer, tidy and sloppy, and the scores that follow."""

from __future__ import annotations

import pytest

from quitmt.evaluate.judge.answers import Error, read, score

TIDY = """Critical:
no-error
Major:
accuracy/mistranslation - "halb sieben"
Minor:
fluency/punctuation - "nur wenn"
style/awkward - "fährt ab\""""

ANSWERS: dict[str, tuple[str, float | None]] = {
    "tidy": (TIDY, -7),
    "no errors": ("Critical:\nno-error\nMajor:\nno-error\nMinor:\nno-error", 0),
    "nothing but that": ("no-error", 0),
    "a sentence": ("There are no errors.", 0),
    "one critical": ('Critical:\naccuracy/omission - "not"\nMajor:\nno-error\nMinor:\nno-error', -25),
    "critical and more is still 25": (
        'Critical:\naccuracy/omission - "a"\nMajor:\nfluency/grammar - "b"\nMinor:\nstyle/awkward - "c"',
        -25,
    ),
    "four majors and a minor": (
        "Critical:\nno-error\nMajor:\n" + 'accuracy/addition - "x"\n' * 4 + 'Minor:\nstyle/awkward - "y"',
        -21,
    ),
    "only five errors count": (
        "Critical:\nno-error\nMajor:\nno-error\nMinor:\n" + 'fluency/spelling - "x"\n' * 9,
        -5,
    ),
    "the worst five count": (
        "Minor:\n" + 'style/awkward - "x"\n' * 6 + 'Major:\naccuracy/omission - "y"\nCritical:\nno-error',
        -9,
    ),
    "six majors": ("Major:\n" + 'accuracy/omission - "x"\n' * 6, -25),
    "markdown": (
        '**Critical:**\n- no-error\n\n**Major:**\n- accuracy/mistranslation - "x"\n* fluency/grammar – "y"\n\n'
        "**Minor:**\n- none",
        -10,
    ),
    "headings without colons": ('### Critical errors\nNone.\n### Major errors\n1. terminology/inappropriate: "x"', -5),
    "on one line": ("Critical: no-error\nMajor: accuracy/omission - \"x\"\nMinor: 'no-error'", -5),
    "bold and on one line": ('**Critical**: no-error\n**Major:** style - "x"\n**Minor:** (none)', -5),
    "no empty headings": ('Minor:\nfluency/register - "du"', -1),
    "with comments": (
        'Here is my review.\n\nCritical:\nno-error\nMajor:\naccuracy/mistranslation - "x"\nThe word means y.\n'
        "Minor:\nno-error\n\nStyle is good, and fluency is fine. Other than that, well done!",
        -5,
    ),
    "explanations below": (
        'Critical:\n- no-error\nMajor:\n- accuracy/omission - "x"\n    - "x" should have been said\nMinor:\n- no-error',
        -5,
    ),
    "in a fence": (f"```\n{TIDY}\n```", -7),
    "after thinking": (f"<think>Major: accuracy/omission - 'q'?</think>\n{TIDY}", -7),
    "a second answer": (f'{TIDY}\n\nEnglish source: …\nCritical:\naccuracy/omission - "z"\nMajor:\nno-error', -7),
    "bullets with quotations": ('Critical:\nno-error\nMajor:\n- "halb sieben" should be "halb acht"\nMinor:', -5),
    "non-translation": ("Critical:\nno-error\nMajor:\nnon-translation\nMinor:\nno-error", -25),
    "capital letters": ('CRITICAL:\nNo-error\nMAJOR:\nAccuracy/Mistranslation - "x"\nMINOR:\nNO-ERROR', -5),
    "kinds with spaces": ('Major:\nlocale convention/number - "1,000"\nMinor:\naccuracy mistranslation - "x"', -6),
    "empty": ("", None),
    "garbage": ("o gato velho dormiu perto da casa", None),
    "praise": ("The translation is accurate and fluent. I would give it 95 points.", None),
    "headings and nothing": ("Critical:\nMajor:\nMinor:", None),
    "prose under a heading": ("Critical:\nno-error\nMajor:\nThe verb was misunderstood.\nMinor:\nno-error", None),
    "a warning under a heading": ("Critical: no-error\nMajor: no-error\nMinor:\n- The tone could be warmer.", None),
    "thinking without end": ("<think>Critical:\nno-error\nMajor:\nno-error", None),
    "severities in a sentence": ("There is a major problem with this.", None),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers(name: str) -> None:
    answer, expected = ANSWERS[name]
    errors = read(answer)
    assert (None if errors is None else score(errors)) == expected


def test_what_an_error_says() -> None:
    assert read(TIDY) == [
        Error("major", 'accuracy/mistranslation - "halb sieben"'),
        Error("minor", 'fluency/punctuation - "nur wenn"'),
        Error("minor", 'style/awkward - "fährt ab"'),
    ]


def test_line_endings() -> None:
    assert read(TIDY.replace("\n", "\r\n")) == read(TIDY)
