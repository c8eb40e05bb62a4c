"""SentencePiece vocabularies as Marian uses them: a text is its pieces and a closing end-of-sentence mark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import sentencepiece

from quitmt.errors import ModelError


class Vocabulary:
    """One vocabulary file."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise ModelError(f"there is no vocabulary at {path}")
        try:
            self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
        except (RuntimeError, OSError) as error:
            raise ModelError(f"{path} is damaged: it is not a SentencePiece model", hint="download it again") from error
        self.end: int = self._pieces.eos_id()
        self.unknown: int = self._pieces.unk_id()
        if self.end < 0:
            raise ModelError(f"{path} is not a vocabulary of a Marian model: it has no end-of-sentence mark")

    def __len__(self) -> int:
        return int(self._pieces.get_piece_size())

    def encode(self, text: str) -> list[int]:
        """The ids of a text, closed by the end-of-sentence mark; an empty text is that mark alone."""
        return [*self._pieces.encode(text), self.end]

    def lacks(self, text: str) -> bool:
        """Whether the vocabulary lacks a character of the text."""
        return self.unknown >= 0 and self.unknown in self._pieces.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without the closing mark."""
        return str(self._pieces.decode(list(ids)))
