"""Files of published models: from a folder, from the Hugging Face cache, or from the hub, in this order.

Cached files are used without asking the hub, so that offline and online runs have the same weights. quitmt checks once,
silently, whether the hub can be reached. After that the hub's library retries downloads and shows their progress.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from quitmt.errors import ModelError

log = logging.getLogger(__name__)

WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
"""The file names that transformers uses for weights, in its order of preference."""
NOISY = ("huggingface_hub", "httpx", "httpx2")
"""Loggers that report every attempt; newer versions of the hub's library use httpx2."""


class Absent(ModelError):
    """The model exists but lacks the file."""


def is_folder(model: str) -> bool:
    """Whether ``model`` is a folder: it exists, or it can't be a name on the hub."""
    return Path(model).expanduser().is_dir() or model.startswith(("/", ".", "~")) or model.count("/") > 1


def file(model: str, name: str, *, purpose: str) -> Path:
    """A file of a model. Errors mention ``purpose``, such as "COMET", or "the encoder of …" for a model's part."""
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
    """The first of several files on this machine, or else the first that the hub has."""
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
    """The folder with a model's weights, which are in one file or in several that an index lists."""
    path = either(model, *WEIGHTS, purpose=purpose)
    for name in _listed(path, model):
        file(model, name, purpose=purpose)
    return path.parent


def _listed(path: Path, model: str) -> list[str]:
    """The files that an index of weights lists; none if the weights are in one file."""
    if path.suffix != ".json":
        return []
    try:
        return sorted(set(json.loads(path.read_text("utf-8"))["weight_map"].values()))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # truncated, or not an index
        raise ModelError(f"{path.name} of {model} cannot be read") from None


def config(kind: Any, model: str, *, purpose: str, **settings: Any) -> Any:
    """A network's configuration, read by its transformers class ``kind``."""
    path = file(model, "config.json", purpose=purpose)
    try:
        return kind.from_pretrained(path.parent, **settings)
    except (OSError, ValueError) as error:  # not JSON, or an unknown kind of network
        log.debug("loading the configuration failed", exc_info=error)
        raise ModelError(f"config.json of {model} cannot be read") from None


def has_file(model: str, name: str) -> bool:
    """Whether a file is on this machine; doesn't ask the hub."""
    if is_folder(model):
        return (Path(model).expanduser() / name).is_file()
    return _cached(model, name) is not None


def has_weights(model: str) -> bool:
    """Whether all weights of a model are on this machine, in one file or in those that its index lists."""
    first = next((name for name in WEIGHTS if has_file(model, name)), None)
    if first is None:
        return False
    try:
        return all(has_file(model, name) for name in _listed(file(model, first, purpose=model), model))
    except ModelError:
        return False


def require(model: str, *, purpose: str) -> None:
    """Raise an error if the hub can't be reached or lacks a model. For callers that let a library download it."""
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
    """Turn the hub's errors into one sentence and silence its logs."""
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
            raise Absent(f"{model} has no {name}", hint=f"{purpose} needs it") from None
        reason: Exception = error
    except Exception as error:  # a network fails in many ways
        reason = error
    log.debug("downloading failed", exc_info=reason)
    raise ModelError(f"{model} is not in the cache, and the hub cannot be reached", hint=_remedy(model, purpose))


def _remedy(model: str, purpose: str) -> str:
    if not purpose.startswith("the "):
        return f"download it on a machine with a network with `hf download {model}`, or name a folder that holds it"
    # Only the encoder's configuration and tokenizer are needed; its weights are many gigabytes.
    command = f"hf download {model} --include '*.json' --include '*.model'"
    return f"it is {purpose}; download it on a machine with a network with `{command}`"


def _reach(model: str, name: str) -> None:
    """Ask for the file's size once: without a network, the download itself would retry for half a minute."""
    from huggingface_hub import constants, errors, get_hf_file_metadata, hf_hub_url

    if constants.HF_HUB_OFFLINE:  # downloading then fails at once
        return
    try:
        get_hf_file_metadata(hf_hub_url(model, name), timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except errors.HfHubHTTPError as error:  # the hub answered; the download handles the error
        log.debug("the hub said", exc_info=error)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the logs of the hub's library unless in debug mode; its progress bars stay."""
    loggers = [] if log.isEnabledFor(logging.DEBUG) else [logging.getLogger(name) for name in NOISY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def quiet_loading() -> Iterator[list[str]]:
    """Hide the bars and the advice that transformers prints while it loads a network; yield its messages."""
    import transformers

    library: Any = transformers.utils.logging
    messages: list[str] = []

    def collect(record: logging.LogRecord) -> bool:
        messages.append(record.getMessage())
        return False

    bars = library.is_progress_bar_enabled()
    with ExitStack() as stack:
        for handler in logging.getLogger("transformers").handlers:
            handler.addFilter(collect)
            stack.callback(handler.removeFilter, collect)
        library.disable_progress_bar()
        if bars:
            stack.callback(library.enable_progress_bar)
        yield messages
