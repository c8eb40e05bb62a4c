"""Networks as transformers keeps them, in a folder or on the hub: configuration and weights, or a sentence why not."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from quitmt.errors import ModelError
from quitmt.metrics.neural import hub

log = logging.getLogger(__name__)


def config(model: str, *, purpose: str) -> Any:
    import transformers

    path = hub.file(model, "config.json", purpose=purpose)
    try:
        return transformers.AutoConfig.from_pretrained(path.parent, trust_remote_code=False)
    except (OSError, ValueError) as error:  # no JSON, or a kind that is unknown
        log.debug("loading the configuration failed", exc_info=error)
        raise ModelError(f"config.json of {model} cannot be read") from None


def network(kind: Any, model: str, settings: Any, *, purpose: str, unused: str | None = None) -> Any:
    """A network of a class of transformers, with all of its weights; those of the part ``unused`` may be missing."""
    import transformers

    source = str(hub.weights(model, purpose=purpose))
    try:
        with _quiet(transformers):
            loaded, found = kind.from_pretrained(source, config=settings, output_loading_info=True)
    except Exception as error:
        log.debug("loading the weights failed", exc_info=error)
        line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(f"the weights of {model} cannot be loaded: {line}") from None
    missing = [name for name in sorted(found["missing_keys"]) if unused is None or not name.startswith(f"{unused}.")]
    if missing:  # transformers would make them up
        raise ModelError(f"{model} lacks weights of its network, such as {missing[0]}")
    return loaded


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Its bars and advice are for those who load models, not for those who score translations."""
    logging_of = transformers.utils.logging
    before, bars = logging_of.get_verbosity(), logging_of.is_progress_bar_enabled()
    logging_of.set_verbosity_error()
    logging_of.disable_progress_bar()
    try:
        yield
    finally:
        logging_of.set_verbosity(before)
        if bars:
            logging_of.enable_progress_bar()
