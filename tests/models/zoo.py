"""The tiny models by name, each built once."""

from __future__ import annotations

import warnings
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.models import tiny


class Zoo:
    """Folders of tiny models under a temporary one; made when first asked for."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def folder(self, kind: str, **settings: Any) -> Path:
        folder = self._root / "-".join([kind, *map(str, settings)])
        if not folder.exists():
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
                getattr(tiny, f"make_{kind}")(folder, **settings)
        return folder

    @cached_property
    def converted_marian(self) -> Path:
        return self._converted("marian", ["source.spm", "target.spm"])

    @cached_property
    def converted_nllb(self) -> Path:
        return self._converted("nllb", ["tokenizer.json", "tokenizer_config.json"])

    @cached_property
    def converted_marian_apart(self) -> Path:
        return self._converted("marian", ["source.spm", "target.spm"], apart=True)

    def _converted(self, kind: str, files: list[str], **settings: Any) -> Path:
        from ctranslate2.converters import TransformersConverter

        source = self.folder(kind, **settings)
        folder = self._root / f"ct2-{source.name}"
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
            TransformersConverter(str(source), copy_files=files).convert(str(folder))
        return folder
