"""Prompt templates: messages for the model, as data in TOML files.

    [[messages]]
    role = "user"
    content = "Translate from {source_language} into {target_language}:\\n\\n{source}"

    [chat_template_kwargs]          # optional, for the model's own chat template
    enable_thinking = false

Placeholders: ``{source}`` (required), ``{source_language}``, ``{target_language}`` (English names),
``{target_language_zh}`` (the Chinese name), ``{source_code}``, ``{target_code}`` (BCP-47) and ``{context}`` (the
preceding sentences, if any). ``[[context_messages]]`` replaces ``[[messages]]`` if there is context, and
``[[chinese_messages]]`` if either language is Chinese. ``extends = "instruct"`` inherits the other fields. ``clean =
false`` means that answers aren't translations, so they are left unchanged. Substitution is one pass, so braces in a
source are text. Languages are required only if the template uses them.

Templates for judging translations are in a separate folder (``judges/gemba-mqm``). They also have the placeholder
``{translation}``, which a ``Judged`` segment provides.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from quitmt.errors import InputError, UsageError, setting, unknown
from quitmt.generate import languages
from quitmt.types import Segment

Message = dict[str, Any]
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_VARIANTS = ("messages", "context_messages", "chinese_messages")
_FIELDS: dict[str, tuple[type, str]] = {
    **dict.fromkeys(_VARIANTS, (list, "a list of tables")),
    "chat_template_kwargs": (dict, "a table"),
    "clean": (bool, "true or false"),
    "about": (str, "text"),
}


@dataclass(frozen=True)
class Template:
    """Messages with placeholders. ``name`` goes into signatures."""

    name: str
    messages: tuple[Message, ...]
    context_messages: tuple[Message, ...] = ()
    chinese_messages: tuple[Message, ...] = ()
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    clean: bool = True
    """Whether answers are cleaned by default."""

    @property
    def names_languages(self) -> bool:
        contents = [message["content"] for variant in _VARIANTS for message in getattr(self, variant)]
        return bool(self.chinese_messages) or not _LANGUAGES.isdisjoint(_placeholders(contents))

    @property
    def digest(self) -> str:
        """A hash of the content, which distinguishes templates of the same name."""
        content = repr((self.messages, self.context_messages, self.chinese_messages, dict(self.chat_template_kwargs)))
        return hashlib.blake2b(content.encode(), digest_size=3).hexdigest()


@dataclass(frozen=True, slots=True)
class Judged(Segment):
    """A source with a translation to judge."""

    translation: str = ""


@dataclass(frozen=True)
class Prompt:
    """A template for a language pair; the pair may be missing if the template names no languages."""

    template: Template
    source_language: str | None = None
    target_language: str | None = None

    @cached_property
    def _pair(self) -> tuple[str, str] | None:
        source, target = self.source_language, self.target_language
        if source and target:
            return source, target
        if not self.template.names_languages:
            return None
        lacking = {"model.source_language": source, "model.target_language": target}
        missing = " and ".join(setting(name) for name, code in lacking.items() if not code)
        hint = f"give {missing}, or {setting('model.options.prompt', 'plain')}, which names none"
        raise UsageError(f"the prompt {self.template.name!r} must be told the languages", hint=hint)

    @cached_property
    def _names(self) -> dict[str, str]:
        if self._pair is None:
            return {}
        source, target = self._pair
        return {
            "source_language": languages.name(source),
            "target_language": languages.name(target),
            "target_language_zh": languages.name(target, into="zh"),
            "source_code": languages.bcp47(source),
            "target_code": languages.bcp47(target),
        }

    @cached_property
    def _has_chinese(self) -> bool:
        return any(languages.is_chinese(code) for code in self._pair or ())

    @property
    def signature(self) -> str:
        pair = f",{'-'.join(self._pair)}" if self._pair else ""
        return f"{self.template.name}-{self.template.digest}{pair}"

    def messages(self, segment: Segment) -> list[Message]:
        """The messages for a segment."""
        template = self.template
        chosen = template.messages
        if template.chinese_messages and self._has_chinese:
            chosen = template.chinese_messages
        elif template.context_messages and segment.context:
            chosen = template.context_messages
        values = {**self._names, "source": segment.source, "context": segment.context}
        values["translation"] = segment.translation if isinstance(segment, Judged) else ""
        return [_filled(message, values) for message in chosen]

    def text(self, segment: Segment) -> str:
        """The messages as one text, for models without a chat template."""
        return "\n\n".join(str(message["content"]) for message in self.messages(segment)) + "\n"


def made(name: str | None, model: str, pair: tuple[str | None, str | None]) -> Prompt:
    """The prompt for a model: the named template, or the one that fits the model. Raises mistakes in the template or
    the languages."""
    prompt = Prompt(load(name or for_model(model)), *pair)
    prompt.messages(Segment("check", "Hello."))
    return prompt


def load(name: str) -> Template:
    """A template that comes with quitmt, by name, or one of the user's, by path.

    A file that does not end in .toml is plain text: the one message of the user.
    """
    if name in [*names(), *judges()]:
        return _parse(name, _included(name))
    path = Path(name)
    try:
        text = path.read_text("utf-8")
    except (UnicodeDecodeError, PermissionError) as error:
        raise InputError(f"the prompt template {name} cannot be read: {error}") from None
    except (OSError, ValueError):  # ValueError: a character that is invalid in paths
        raise unknown("prompt template", name, [*names(), "PATH of a template file"]) from None
    if path.suffix == ".toml":
        return _parse(path.stem, text)
    return _checked(Template(path.stem, ({"role": "user", "content": text.rstrip("\n")},)), name)


def names() -> list[str]:
    """Names of the translation templates."""
    return _listed("templates")


def judges() -> list[str]:
    """Names of the templates that judge a translation."""
    return [f"judges/{name}" for name in _listed("judges")]


def for_model(model: str) -> str:
    """The template that fits a model by its name; the general one if none does."""
    lowered = model.lower()
    for pattern, name in (("translategemma", "translategemma"), ("hy-mt", "hy-mt"), ("hunyuan-mt", "hy-mt")):
        if pattern in lowered:
            return name
    return "qwen3" if "qwen3" in lowered or "qwen-3" in lowered else "instruct"


def _listed(folder: str) -> list[str]:
    entries = (resources.files("quitmt.generate.prompts") / folder).iterdir()
    return sorted(entry.name.removesuffix(".toml") for entry in entries if entry.name.endswith(".toml"))


def _included(name: str) -> str:
    """The text of a template that comes with quitmt."""
    place = name if name.startswith("judges/") else f"templates/{name}"
    return (resources.files("quitmt.generate.prompts") / f"{place}.toml").read_text("utf-8")


def _parse(name: str, text: str) -> Template:
    try:
        fields = tomllib.loads(text)
        json.dumps(fields, allow_nan=False)  # requests are JSON
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"the prompt template {name} is not TOML: {error}") from None
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"the prompt template {name} cannot be sent as JSON: {error}") from None
    if parent := fields.pop("extends", None):
        if parent not in (judges() if name in judges() else names()):
            raise unknown("prompt template", str(parent), names())
        fields = {**tomllib.loads(_included(parent)), **fields}
    for field_name, value in fields.items():
        if field_name not in _FIELDS:
            hint = f"known: {', '.join(_FIELDS)}"
            raise InputError(f"the prompt template {name} has an unknown field {field_name!r}", hint=hint)
        kind, described = _FIELDS[field_name]
        if not isinstance(value, kind):
            raise InputError(f"{field_name} in the prompt template {name} must be {described}")
    variants = {variant: tuple(fields.get(variant, ())) for variant in _VARIANTS}
    kwargs, clean = fields.get("chat_template_kwargs", {}), fields.get("clean", True)
    return _checked(Template(name, **variants, chat_template_kwargs=kwargs, clean=clean), name)


def _checked(template: Template, name: str) -> Template:
    for variant in _VARIANTS:
        messages = getattr(template, variant)
        if variant != "messages" and not messages:
            continue
        if not all(isinstance(m, dict) and isinstance(m.get("role"), str) and "content" in m for m in messages):
            raise InputError(f"the prompt template {name} has a message without role or content")
        used = {placeholder for message in messages for placeholder in _placeholders(message["content"])}
        if "source" not in used:
            raise InputError(f"the prompt template {name} has no {{source}}", hint="that is where the text goes")
        if wrong := sorted(used - (_KNOWN | {"translation"} if name in judges() else _KNOWN)):
            raise InputError(f"the prompt template {name} has an unknown placeholder {{{wrong[0]}}}")
    return template


_LANGUAGES = {"source_language", "target_language", "target_language_zh", "source_code", "target_code"}
_KNOWN = {"source", "context", *_LANGUAGES}


def _placeholders(content: Any) -> list[str]:
    if isinstance(content, str):
        return _PLACEHOLDER.findall(content)
    if isinstance(content, dict):
        return [name for value in content.values() for name in _placeholders(value)]
    return [name for value in content for name in _placeholders(value)] if isinstance(content, list) else []


def _filled(content: Any, values: Mapping[str, str]) -> Any:
    if isinstance(content, str):
        return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), content)
    if isinstance(content, dict):
        return {key: _filled(value, values) for key, value in content.items()}
    return [_filled(value, values) for value in content] if isinstance(content, list) else content
