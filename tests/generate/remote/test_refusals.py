"""What each refusal of a server means for the user."""

from __future__ import annotations

import pytest

from quitmt.errors import GenerationError, ModelError, QuitmtError, UsageError
from quitmt.generate.remote.failures import Refused, explained
from quitmt.generate.remote.transport import Address
from quitmt.sampling import Sampling
from quitmt.types import Segment

URL = "http://x/v1"
NO_MODEL = f"the server at {URL} does not know the model 'm' (use one of those listed at {URL}/models)"
TOO_LONG = "segment 1 is too long for m: This model's maximum context length is 400 tokens."


@pytest.mark.parametrize(
    ("status", "message", "kind", "says"),
    [
        (401, "No key.", UsageError, f"the server at {URL} requires a key (set OPENAI_API_KEY"),
        (404, "The model `m` does not exist.", ModelError, NO_MODEL),
        (400, "unknown model m", ModelError, NO_MODEL),
        (404, "Not Found", UsageError, f"the server at {URL} has no /x (options['base_url'] usually ends in /v1)"),
        (
            200,
            "<h1>hi</h1>",
            UsageError,
            f"the server at {URL} answers with a web page (options['base_url'] looks like",
        ),
        (307, "", UsageError, f"the server at {URL} redirects to another address"),
        (400, "Unrecognized argument: min_p", UsageError, "cannot sample with min-p: Unrecognized argument: min_p"),
        (400, "This model's maximum context length is 400 tokens.", GenerationError, TOO_LONG),
        (413, "", GenerationError, "segment 1 is too long for m"),
        (422, "bad tools", GenerationError, f"segment 1: the server at {URL} answers 422: bad tools"),
    ],
)
def test_a_refusal_says_what_to_do(status: int, message: str, kind: type[QuitmtError], says: str) -> None:
    found = explained(Refused(status, message, Address(URL)), "/x", "m", Sampling(min_p=0.1), Segment("1", "Hi."))
    assert type(found) is kind and says in str(found)


def test_a_wrong_key_is_not_shown() -> None:
    refused = Refused(401, "Incorrect API key: sk-wrong", Address(URL, "sk-wrong"))
    found = explained(refused, "/x", "m", Sampling(), Segment("1", "Hi."))
    assert "refuses the key in OPENAI_API_KEY" in str(found) and "sk-" not in str(found)
