"""How each family of translation models is told its languages."""

from __future__ import annotations

from typing import Any

import pytest

transformers = pytest.importorskip("transformers")
pytest.importorskip("torch")

from tests.models.zoo import Zoo  # noqa: E402

from quitmt.errors import UsageError  # noqa: E402
from quitmt.generate.decoding.families import Telling, tell  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")


def told(zoo: Zoo, kind: str, pair: tuple[str | None, str | None], **settings: Any) -> tuple[Telling, str | None]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(zoo.folder(kind, **settings))
    return tell(tokenizer, pair, kind), getattr(tokenizer, "src_lang", None)


class FakeMBart:
    src_lang = "en_XX"

    def get_vocab(self) -> dict[str, int]:
        return {token: i for i, token in enumerate(["a", "en_XX", "pt_XX", "zh_CN"])}


def test_each_family_is_told_in_its_way(zoo: Zoo) -> None:
    assert told(zoo, "marian", (None, None)) == (Telling(), None)
    assert told(zoo, "marian", (None, "pt-BR"), codes=("por", "deu")) == (Telling(before=">>por<< "), None)
    assert told(zoo, "m2m100", ("en", "pt-BR")) == (Telling(first="__pt__"), "en")
    assert told(zoo, "nllb", ("en-GB", "zh-Hant")) == (Telling(first="zho_Hant"), "eng_Latn")
    assert told(zoo, "madlad", (None, "pt"))[0] == Telling(before="<2pt> ")
    mbart = FakeMBart()
    assert tell(mbart, ("en", "zh"), "mbart") == Telling(first="zh_CN") and mbart.src_lang == "en_XX"


@pytest.mark.parametrize("kind", ["m2m100", "nllb", "madlad"])
def test_a_language_that_a_model_does_not_know_or_is_not_told_is_an_error(zoo: Zoo, kind: str) -> None:
    with pytest.raises(UsageError, match=f"{kind} knows several target languages"):
        told(zoo, kind, ("en", None))
    for code in ("tlh", "no such"):
        with pytest.raises(UsageError):
            told(zoo, kind, ("en", code))
