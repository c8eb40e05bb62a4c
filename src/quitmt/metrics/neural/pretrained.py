"""Networks of transformers, in a folder or on the hub: their configuration and weights, or one sentence of error."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from quitmt.errors import ModelError
from quitmt.metrics.neural import hub

log = logging.getLogger(__name__)


def config(model: str, *, purpose: str) -> Any:
    import transformers

    path = hub.file(model, "config.json", purpose=purpose)
    try:
        return transformers.AutoConfig.from_pretrained(path.parent, trust_remote_code=False)
    except (OSError, ValueError) as error:  # not JSON, or an unknown kind
        log.debug("loading the configuration failed", exc_info=error)
        raise ModelError(f"config.json of {model} cannot be read") from None


def network(kind: Any, model: str, settings: Any, *, purpose: str) -> Any:
    """A network of a class of transformers; all of its weights must be there."""
    source = str(hub.weights(model, purpose=purpose))
    try:
        with quiet():
            loaded, found = kind.from_pretrained(source, config=settings, output_loading_info=True)
    except Exception as error:
        log.debug("loading the weights failed", exc_info=error)
        line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(f"the weights of {model} cannot be loaded: {line}") from None
    if missing := sorted(found["missing_keys"]):  # transformers would make them up
        raise ModelError(f"{model} lacks weights of its network, such as {missing[0]}")
    return loaded


@contextmanager
def quiet() -> Iterator[list[str]]:
    """Hide the bars and the advice that transformers prints while it loads; yields its messages."""
    import transformers

    library: Any = transformers.utils.logging
    told: list[str] = []

    def collect(record: logging.LogRecord) -> bool:
        told.append(record.getMessage())
        return False

    bars = library.is_progress_bar_enabled()
    with ExitStack() as stack:
        for handler in logging.getLogger("transformers").handlers:
            handler.addFilter(collect)
            stack.callback(handler.removeFilter, collect)
        library.disable_progress_bar()
        if bars:
            stack.callback(library.enable_progress_bar)
        yield told
