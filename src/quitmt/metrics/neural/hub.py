"""Files of published models: from a folder, from the Hugging Face cache, or from the hub, in this order.

What is cached is taken without asking the hub, so that a run offline and a run online have the same weights. Whether
the hub can be reached is tried once and without noise; a download that has begun is resumed as often as the hub's own
library likes, and shows its progress.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quitmt.errors import ModelError

log = logging.getLogger(__name__)

WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
"""What transformers calls them, the one it prefers first."""
NOISY = ("huggingface_hub", "httpx", "httpx2")
"""Loggers that tell of every attempt; httpx2 is what newer versions of the hub's library speak with."""


class Absent(ModelError):
    """The model is there, and has no such file."""


def is_folder(model: str) -> bool:
    """Whether a model is meant as a folder: it is one, or it cannot be a name on the hub."""
    return Path(model).expanduser().is_dir() or model.startswith(("/", ".", "~")) or model.count("/") > 1


def file(model: str, name: str, *, purpose: str) -> Path:
    """A file of a model; ``purpose`` is for the error: "COMET", or a part of another model, "the encoder of …"."""
    if is_folder(model):
        path = Path(model).expanduser() / name
        hint = f"{purpose} takes a folder or a name on the hub"
        if not Path(model).expanduser().is_dir():
            raise ModelError(f"the folder {model} is not there", hint=hint)
        if not path.is_file():
            raise Absent(f"the folder {model} has no {name}", hint=hint)
        return path
    cached = _cached(model, name)
    return cached or _downloaded(model, name, purpose)


def either(model: str, *names: str, purpose: str) -> Path:
    """The first of several files that is at hand, or else the first that the hub has."""
    for name in names:
        if has_file(model, name):
            return file(model, name, purpose=purpose)
    lacking: Absent | None = None
    for name in names:
        try:
            return file(model, name, purpose=purpose)
        except Absent as error:
            lacking = lacking or error
    assert lacking is not None
    raise lacking


def weights(model: str, *, purpose: str) -> Path:
    """The folder with a model's weights as transformers keeps them, in one file or in several that an index lists."""
    path = either(model, *WEIGHTS, purpose=purpose)
    if path.suffix == ".json":
        try:
            names = sorted(set(json.loads(path.read_text("utf-8"))["weight_map"].values()))
        except (ValueError, LookupError, TypeError, AttributeError):
            raise ModelError(f"{path.name} of {model} cannot be read") from None
        for name in names:
            file(model, name, purpose=purpose)
    return path.parent


def has_file(model: str, name: str) -> bool:
    """Whether a file is at hand, without asking the hub."""
    if is_folder(model):
        return (Path(model).expanduser() / name).is_file()
    return _cached(model, name) is not None


def has_weights(model: str) -> bool:
    """Whether all weights of a model are on this machine, in one file or in those that its index lists."""
    found = next((name for name in WEIGHTS if has_file(model, name)), None)
    if found is None or not found.endswith(".json"):
        return found is not None
    try:
        index = json.loads(file(model, found, purpose=model).read_text("utf-8"))
        return all(has_file(model, name) for name in set(index["weight_map"].values()))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # cut off, or no index
        return False


def require(model: str, *, purpose: str) -> None:
    """Raise if the hub cannot be reached or does not have a model, for whoever lets its library download."""
    with _explained(model, "config.json", purpose):
        _reach(model, "config.json")


def _cached(model: str, name: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(model, name)
    except HFValidationError:
        raise ModelError(f"{model!r} is neither a folder nor a name on the hub") from None
    return Path(found) if isinstance(found, str) else None


def _downloaded(model: str, name: str, purpose: str) -> Path:
    from huggingface_hub import hf_hub_download

    with _explained(model, name, purpose):
        _reach(model, name)
        return Path(hf_hub_download(model, name))


@contextmanager
def _explained(model: str, name: str, purpose: str) -> Iterator[None]:
    """Errors of asking the hub for a file, in a sentence; without noise."""
    from huggingface_hub import errors

    page = f"https://huggingface.co/{model}"
    try:
        with quiet():
            yield
        return
    except errors.GatedRepoError:
        hint = f"accept its licence at {page}, then log in with `hf auth login` or set HF_TOKEN"
        raise ModelError(f"{model} is gated: its authors want to know who uses it", hint=hint) from None
    except errors.RepositoryNotFoundError:
        hint = "check the name; a private one needs HF_TOKEN"
        raise ModelError(f"there is no model {model} on the hub", hint=hint) from None
    except errors.EntryNotFoundError as error:
        if not isinstance(error, errors.LocalEntryNotFoundError):
            raise Absent(f"{model} has no {name}", hint=f"it is not what {purpose} needs") from None
        reason: Exception = error
    except Exception as error:  # the many ways in which a network fails
        reason = error
    log.debug("downloading failed", exc_info=reason)
    raise ModelError(f"{model} is not in the cache, and the hub cannot be reached", hint=_remedy(model, purpose))


def _remedy(model: str, purpose: str) -> str:
    if not purpose.startswith("the "):
        return f"download it where there is a network with `hf download {model}`, or name a folder that holds it"
    # Of an encoder only the configuration and the tokenizer are needed, and its weights are many gigabytes.
    command = f"hf download {model} --include '*.json' --include '*.model'"
    return f"it is {purpose}; download it where there is a network with `{command}`"


def _reach(model: str, name: str) -> None:
    """Ask for the file's size, once: the download itself would try for half a minute where there is no network."""
    from huggingface_hub import constants, errors, get_hf_file_metadata, hf_hub_url

    if constants.HF_HUB_OFFLINE:  # then downloading fails without an attempt
        return
    try:
        get_hf_file_metadata(hf_hub_url(model, name), timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except errors.HfHubHTTPError as error:  # an answer: what to make of it, and whether to try again, is known below
        log.debug("the hub said", exc_info=error)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the hub's library, except for its progress bars; not while we are being debugged."""
    loggers = [] if log.isEnabledFor(logging.DEBUG) else [logging.getLogger(name) for name in NOISY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
