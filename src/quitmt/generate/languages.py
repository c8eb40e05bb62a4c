"""Languages: BCP-47 codes in, the names and codes that models want out.

All names come from the library langcodes (Unicode's CLDR); nothing is typed in by hand.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

from quitmt.errors import MissingExtra, UsageError


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


def not_a_code(text: str) -> UsageError:
    """The error for what is perhaps the name of a language."""
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
    """The code that a model knows a language by: written as is, without region, by ISO 639-3, or FLORES style.

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
