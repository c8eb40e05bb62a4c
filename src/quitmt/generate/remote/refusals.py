"""What a server's refusal means for the user: one sentence, and what to do."""

from __future__ import annotations

from quitmt.errors import GenerationError, ModelError, QuitmtError, UsageError, setting
from quitmt.generate.remote.address import Address
from quitmt.generate.remote.link import Refused
from quitmt.sampling import Sampling
from quitmt.types import Segment

_TOO_LONG = "context length|context window|context size|too long|maximum…length|maximum…tokens|exceed…token"
_NO_MODEL = "model…not found|model…not exist|model…unknown|model…not available|unknown model"
"""Wordings of servers; … stands for anything."""


def explained(refused: Refused, path: str, model: str, sampling: Sampling, segment: Segment) -> QuitmtError:
    status, message, address = refused.status, refused.message, refused.address
    if status in (401, 403):
        wrong = "refuses the key in OPENAI_API_KEY" if address.has_key else "wants a key"
        return UsageError(f"the server at {address.url} {wrong}", hint="set OPENAI_API_KEY to a key of that server")
    if status in (404, 405):
        return _not_found(message, address, path, model)
    if status < 400:
        what = "answers with a web page" if status == 200 else "sends us elsewhere"
        return UsageError(
            f"the server at {address.url} {what}",
            hint=f"{setting('model.options.base_url')} is like http://localhost:8000/v1",
        )
    letters = "".join(filter(str.isalpha, message.lower()))  # servers write top_k, top-k and topK
    for name, requested in (("top-k", sampling.top_k), ("min-p", sampling.min_p)):
        if requested is not None and name.replace("-", "") in letters:
            return UsageError(f"the server at {address.url} cannot sample with {name}: {message}", hint="leave it out")
    if _says(message, _TOO_LONG) or status == 413:
        fewer = f"lower {setting('model.options.max_tokens')}"
        hint = f"split it, shorten its context, {fewer} or give the server a longer context"
        return GenerationError(f"segment {segment.id} is too long for {model}: {message}", hint=hint)
    if _says(message, _NO_MODEL):
        return _not_found(message, address, path, model)
    said = f": {message}" if message else ""
    return GenerationError(
        f"segment {segment.id}: the server at {address.url} answers {status}{said}",
        hint="change what it complains of; its log may say more",
    )


def _says(message: str, wordings: str) -> bool:
    return any(_follow(message.lower(), wording.split("…")) for wording in wordings.split("|"))


def _follow(message: str, parts: list[str]) -> bool:
    """Whether the parts are in a message, one after the other."""
    for part in parts:
        _, found, message = message.partition(part)
        if not found:
            return False
    return True


def _not_found(message: str, address: Address, path: str, model: str) -> QuitmtError:
    if "model" in message.lower() or (model and model in message):
        hint = f"take one of those listed at {address.url}/models"
        return ModelError(f"the server at {address.url} does not know the model {model!r}", hint=hint)
    return UsageError(
        f"the server at {address.url} has no {path}", hint=f"{setting('model.options.base_url')} mostly ends in /v1"
    )
