"""Prompt templates: the documented formats of the study's models, and the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from quitmt.errors import InputError, UsageError
from quitmt.evaluate.judge.answers import read
from quitmt.generate.prompts.template import Judged, Prompt, for_model, judges, load, made, names
from quitmt.types import Segment

SEGMENT = Segment("1", "A {source} of {joy}.")


def filled(name: str, source: str = "en", target: str = "pt-BR", segment: Segment = SEGMENT) -> list[dict[str, object]]:
    return Prompt(load(name), source, target).messages(segment)


@pytest.mark.parametrize("name", names())
def test_every_template_has_the_source_and_nothing_left_to_fill(name: str) -> None:
    for source, target in (("en", "de"), ("zh", "en")):
        text = str(filled(name, source, target, Segment("1", "SOURCE", "CONTEXT")))
        assert "SOURCE" in text and "{" not in text.replace("{'", "")


def test_braces_in_a_source_are_text() -> None:
    assert str(filled("instruct")[0]["content"]).endswith("\n\nA {source} of {joy}.")


def test_qwen3_switches_thinking_off() -> None:
    assert load("qwen3").chat_template_kwargs == {"enable_thinking": False}
    assert "from English into Portuguese (Brazil)" in str(filled("qwen3")[0]["content"])


def test_translategemma_wants_codes_in_one_entry() -> None:
    entry = {"type": "text", "source_lang_code": "en", "target_lang_code": "pt-BR", "text": "A {source} of {joy}."}
    assert filled("translategemma") == [{"role": "user", "content": [entry]}]


def test_hy_mt_speaks_chinese_where_chinese_is_involved() -> None:
    assert filled("hy-mt") == [
        {
            "role": "user",
            "content": "Translate the following segment into Portuguese (Brazil), without additional explanation."
            "\n\nA {source} of {joy}.",
        }
    ]
    for source, target, name in (("en", "zh", "中文"), ("zh", "de", "德语")):
        [message] = filled("hy-mt", source, target)
        assert str(message["content"]).startswith(f"将以下文本翻译为{name}，")


def test_plain_is_the_text_itself_and_names_no_language() -> None:
    prompt = made("plain", "some/model", (None, None))
    assert prompt.messages(SEGMENT) == [{"role": "user", "content": "A {source} of {joy}."}]
    assert prompt.signature == f"plain-{prompt.template.digest}"
    assert not prompt.template.clean and load("instruct").clean


@pytest.mark.parametrize(
    ("pair", "missing"),
    [
        ((None, None), r"languages\[0\] and languages\[1\]"),
        (("en", None), r"languages\[1\]"),
        ((None, "de"), r"languages\[0\]"),
    ],
)
def test_templates_that_translate_must_be_told_the_languages(pair: tuple[str | None, str | None], missing: str) -> None:
    for name in names():
        if name != "plain":
            with pytest.raises(UsageError, match=f"the prompt '{name}' must be told the languages .give {missing},"):
                made(name, "some/model", pair)


def test_context_only_where_there_is_some() -> None:
    assert "What comes before" not in str(filled("instruct"))
    [message] = filled("instruct", segment=Segment("2", "He left.", "Ann came.\nBob stayed."))
    assert "Ann came.\nBob stayed." in str(message["content"])


def test_a_template_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("{source_language} → {target_language}: {source}\n")
    assert filled(str(tmp_path / "mine.txt"), segment=Segment("1", "x")) == [
        {"role": "user", "content": "English → Portuguese (Brazil): x"}
    ]
    (tmp_path / "mine.toml").write_text(
        '[[messages]]\nrole="system"\ncontent="Be brief."\n[[messages]]\nrole="user"\ncontent="{source}"\n'
    )
    prompt = Prompt(load(str(tmp_path / "mine.toml")), "en", "de")
    assert [message["role"] for message in prompt.messages(SEGMENT)] == ["system", "user"]
    assert prompt.text(Segment("1", "x")) == "Be brief.\n\nx\n"
    assert prompt.signature.startswith("mine-") and prompt.signature.endswith(",en-de")
    (tmp_path / "mine.toml").write_text('[[messages]]\nrole="user"\ncontent="Now: {source}"\n')
    assert Prompt(load(str(tmp_path / "mine.toml")), "en", "de").signature != prompt.signature


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("t.txt", "Translate this", r"has no \{source\} \(that is where the text goes\)"),
        ("t.txt", "{source} {adress}", r"unknown placeholder \{adress\}"),
        ("t.txt", "{source} {translation}", r"unknown placeholder \{translation\}"),
        ("t.toml", "messages = [", "is not TOML"),
        ("t.toml", "mesages = []", "unknown field 'mesages'"),
        ("t.toml", 'messages = [{role = "user"}]', "message without role or content"),
        ("t.toml", "", r"has no \{source\}"),
        (
            "t.toml",
            'clean = "no"\nmessages = [{role = "user", content = "{source}"}]',
            "must be true or false",
        ),
    ],
)
def test_bad_templates(file: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(InputError, match=message):
        load(str(tmp_path / file))


def test_judges_are_kept_apart() -> None:
    assert judges() == ["judges/gemba-mqm", "judges/gemba-mqm-qwen3"]
    assert not [name for name in names() if "gemba" in name]
    with pytest.raises(UsageError, match="unknown prompt template 'gemba-mqm'"):
        load("gemba-mqm")


@pytest.mark.parametrize("name", judges())
def test_every_judge_has_source_and_translation_and_nothing_left_to_fill(name: str) -> None:
    messages = filled(name, "en", "de", Judged("1", "SOURCE", translation="TRANSLATION {source}"))
    last = str(messages.pop()["content"])
    assert "English source" in last and "SOURCE" in last and "TRANSLATION {source}" in last
    assert "{" not in str([message["content"] for message in messages])


def test_the_judges_own_examples_can_be_read() -> None:
    answers = [str(message["content"]) for message in filled("judges/gemba-mqm") if message["role"] == "assistant"]
    assert [[error.severity for error in read(answer) or []] for answer in answers] == [
        ["major", "minor"], ["critical", "major"], [],
    ]  # fmt: skip
    assert None not in [read(answer) for answer in answers]


def test_judges_for_qwen3_do_not_think() -> None:
    assert load("judges/gemba-mqm-qwen3").chat_template_kwargs == {"enable_thinking": False}
    assert load("judges/gemba-mqm-qwen3").messages == load("judges/gemba-mqm").messages


def test_unknown_names() -> None:
    with pytest.raises(UsageError, match="did you mean 'qwen3'"):
        load("qwen")
    with pytest.raises(UsageError, match="'xx' is not a language code"):
        filled("instruct", target="xx")


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("Qwen/Qwen3-8B", "qwen3"),
        ("google/translategemma-12b-it", "translategemma"),
        ("tencent/Hy-MT2-30B-A3B", "hy-mt"),
        ("tencent/Hunyuan-MT-7B", "hy-mt"),
        ("meta-llama/Llama-3.1-8B-Instruct", "instruct"),
    ],
)
def test_the_template_follows_the_model(model: str, name: str) -> None:
    assert for_model(model) == name


HOSTILE = {
    "deep arrays": ("a = " + "[" * 5000 + "]" * 5000, "cannot be sent as JSON"),
    "a long integer": ("a = " + "9" * 5000, "cannot be sent as JSON"),
    "a date": ("[chat_template_kwargs]\na = 2020-01-01", "cannot be sent as JSON: Object of type date"),
    "not a number": ("[chat_template_kwargs]\na = nan", "cannot be sent as JSON"),
    "a number of messages": ("messages = 5", "must be a list"),
    "kwargs without names": ("chat_template_kwargs = 5", "must be a table"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    text, says = HOSTILE[name]
    path = tmp_path / "own.toml"
    path.write_text(f"extends = 'instruct'\n{text}\n")
    with pytest.raises(InputError, match=says) as caught:
        load(str(path))
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "."])
def test_what_cannot_be_a_file_is_an_unknown_template(name: str) -> None:
    with pytest.raises(UsageError, match="unknown prompt template"):
        load(name)
