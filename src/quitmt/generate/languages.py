"""Languages: converts BCP-47 codes to the names and codes that models use.

All names come from the library langcodes (Unicode's CLDR).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from typing import Any

from quitmt.errors import MissingExtra, UsageError

TWO_LETTERS = frozenset(
    """
    aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el
    en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik in io is it
    iu iw ja ji jv jw ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mo
    mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh
    si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh
    yi yo za zh zu
    """.split()
)
"""All two-letter codes (ISO 639-1), to detect misspelt ones even without langcodes."""


@cache
def _language(code: str) -> Any:
    try:
        from langcodes import Language
        from langcodes.tag_parser import LanguageTagError
    except ImportError:
        raise MissingExtra("names of languages need langcodes", hint="pip install 'quitmt[llm]'") from None
    try:
        language = Language.get(code)
        valid = language.is_valid()
    except LanguageTagError:
        valid = False
    if not valid:
        raise not_a_code(code)
    return language


def without_region(code: str) -> str:
    """The language and its script, without the region, which most models ignore.

    >>> [without_region(code) for code in ("pt-BR", "EN_us", "zh-hant-TW", "pt")]
    ['pt', 'en', 'zh-Hant', 'pt']
    """
    language, *rest = re.split("[-_]", code)
    if not (language.isalpha() and len(language) in (2, 3)) or (
        len(language) == 2 and language.lower() not in TWO_LETTERS
    ):
        raise not_a_code(code)
    return "-".join([language.lower(), *(part.title() for part in rest if len(part) == len("Hant"))])


def not_a_code(text: str) -> UsageError:
    """The error for a text that may be the name of a language."""
    code = _named(text)
    hint = "use BCP-47, such as de, pt-BR or zh-Hant" if code is None else f"did you mean {code}?"
    return UsageError(f"{text!r} is not a language code", hint=hint)


def _named(name: str) -> str | None:
    """The code of a language by its name in some language, if langcodes is there and knows it."""
    try:
        from langcodes import find

        return str(find(name).to_tag())
    except (ImportError, LookupError):
        return None


def name(code: str, *, into: str = "en") -> str:
    """The name of a language, in English or in another one.

    >>> name("pt-BR"), name("zh-Hant"), name("de", into="zh")
    ('Portuguese (Brazil)', 'Chinese (Traditional)', '德语')
    """
    return str(_language(code).display_name(into))


def is_chinese(code: str) -> bool:
    return str(_language(code).language) in ("zh", "yue")


def bcp47(code: str) -> str:
    """The code in its normal form.

    >>> bcp47("PT_br")
    'pt-BR'
    """
    return str(_language(code).to_tag())


def flores(code: str) -> str:
    """The language and script as FLORES and NLLB write them.

    >>> flores("pt-BR"), flores("zh-Hant"), flores("sr")
    ('por_Latn', 'zho_Hant', 'srp_Cyrl')
    """
    language = _language(code)
    return f"{language.to_alpha3()}_{language.maximize().script}"


def among(code: str, known: Collection[str], model: str) -> str:
    """The code that a model uses for a language: unchanged, without region, by ISO 639-3, or in FLORES style.

    >>> among("pt-BR", {"en", "pt"}, "m2m100")
    'pt'
    >>> among("pt", {"eng_Latn", "por_Latn"}, "nllb")
    'por_Latn'
    """
    language = _language(code)
    for form in (
        code,
        bcp47(code),
        bcp47(code).replace("-", "_"),
        language.language,
        language.to_alpha3(),
        flores(code),
    ):
        if form in known:
            return str(form)
    raise UsageError(f"{model} does not know the language {name(code)} ({code})", hint=_some(known))


def _some(known: Collection[str]) -> str:
    listed = sorted(known)
    return f"it knows {', '.join(listed[:12])}{' and others' if len(listed) > 12 else ''}"
