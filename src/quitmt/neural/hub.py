"""Files of published models: from a folder, from the Hugging Face cache, or from the hub, in this order.

What is cached is taken without asking the hub, so that a run offline and a run online have the same weights.
"""

from __future__ import annotations

import logging
from pathlib import Path

from quitmt.errors import ModelError

log = logging.getLogger(__name__)


class Absent(ModelError):
    """The model is there, and has no such file."""


def is_folder(model: str) -> bool:
    """Whether a model is meant as a folder: it is one, or it cannot be a name on the hub."""
    return Path(model).expanduser().is_dir() or model.startswith(("/", ".", "~")) or model.count("/") > 1


def file(model: str, name: str, *, purpose: str) -> Path:
    """A file of a model; ``purpose`` is what the model is for, such as "COMET", for the error."""
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


def has_file(model: str, name: str) -> bool:
    """Whether a file is at hand, without asking the hub."""
    if is_folder(model):
        return (Path(model).expanduser() / name).is_file()
    return _cached(model, name) is not None


def _cached(model: str, name: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(model, name)
    except HFValidationError:
        raise ModelError(f"{model!r} is neither a folder nor a name on the hub") from None
    return Path(found) if isinstance(found, str) else None


def _downloaded(model: str, name: str, purpose: str) -> Path:
    from huggingface_hub import errors, hf_hub_download

    page = f"https://huggingface.co/{model}"
    try:
        return Path(hf_hub_download(model, name))
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
    hint = f"download it where there is a network with `hf download {model}`, or name a folder that holds it"
    raise ModelError(f"{model} is not in the cache, and the hub cannot be reached", hint=hint)
