"""Each API with its real client library, unmodified."""

from __future__ import annotations

import deepl
import openai
import pytest
from libretranslatepy import LibreTranslateAPI

from tests.serve.conftest import KEY, Running

HELLO, SHOUTED = "Good morning, my dear friend.", "GOOD MORNING, MY DEAR FRIEND."


class TestLibreTranslate:
    @pytest.fixture
    def client(self, shared: Running) -> LibreTranslateAPI:
        return LibreTranslateAPI(f"{shared.url}/")

    def test_translate(self, client: LibreTranslateAPI) -> None:
        assert client.translate(HELLO, "en", "pt") == SHOUTED
        assert client.translate(HELLO, "auto", "pt") == SHOUTED

    def test_languages_and_detection(self, client: LibreTranslateAPI) -> None:
        assert client.languages() == [
            {"code": "en", "name": "English", "targets": ["pt"]},
            {"code": "pt", "name": "Portuguese", "targets": ["en"]},
        ]
        [first, second] = client.detect("Bom dia, meu caro amigo, como vai a família?")
        assert first["language"] == "pt" and first["confidence"] > 60 > second["confidence"]

    def test_a_key_goes_into_the_body(self, locked: Running) -> None:
        assert LibreTranslateAPI(f"{locked.url}/", KEY).translate(HELLO, "en", "pt") == SHOUTED
        with pytest.raises(Exception, match="403"):
            LibreTranslateAPI(f"{locked.url}/", "wrong").translate(HELLO, "en", "pt")


class TestDeepL:
    @pytest.fixture
    def client(self, shared: Running) -> deepl.Translator:
        return deepl.Translator("any-key", server_url=shared.url)

    def test_one_text_and_several(self, client: deepl.Translator) -> None:
        found = client.translate_text(HELLO, target_lang="PT-BR")
        assert isinstance(found, deepl.TextResult)
        assert (found.text, found.detected_source_lang, found.billed_characters) == (SHOUTED, "EN", len(HELLO))
        several = client.translate_text([HELLO, "Tea?", ""], source_lang="EN", target_lang="PT-PT")
        assert isinstance(several, list) and [one.text for one in several] == [SHOUTED, "TEA?", ""]

    def test_tags_are_kept(self, client: deepl.Translator) -> None:
        text = 'Save <x id="1">my file</x> in <b>the folder</b> &amp; go.'
        found = client.translate_text(
            text, source_lang="EN", target_lang="PT-PT", tag_handling="xml", ignore_tags=["x"]
        )
        assert isinstance(found, deepl.TextResult)
        assert found.text == 'SAVE <x id="1">my file</x> IN <b>THE FOLDER</b> &amp; GO.'

    def test_languages_and_usage(self, client: deepl.Translator) -> None:
        assert [one.code for one in client.get_source_languages()] == ["EN", "PT"]
        assert {one.code: one.name for one in client.get_target_languages()} == {"PT": "Portuguese", "EN": "English"}
        usage = client.get_usage()
        assert usage.character is not None and usage.character.count == 0 and not usage.any_limit_reached

    def test_keys_and_errors(self, client: deepl.Translator, locked: Running) -> None:
        right = deepl.Translator(KEY, server_url=locked.url).translate_text(HELLO, target_lang="PT-PT")
        assert isinstance(right, deepl.TextResult) and right.text == SHOUTED
        with pytest.raises(deepl.AuthorizationException):
            deepl.Translator("wrong", server_url=locked.url).translate_text(HELLO, target_lang="PT-PT")
        with pytest.raises(deepl.DeepLException, match="isn't served"):
            client.translate_text(HELLO, target_lang="DE")


class TestOpenAI:
    @pytest.fixture
    def client(self, shared: Running) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{shared.url}/v1", api_key="any", max_retries=0)

    def test_models(self, client: openai.OpenAI) -> None:
        assert [one.id for one in client.models.list()] == ["quitmt-en-pt", "quitmt-pt-en", "quitmt"]
        assert client.models.retrieve("quitmt-pt-en").id == "quitmt-pt-en"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("gpt-4")

    @pytest.mark.parametrize("model", ["quitmt-en-pt", "quitmt"])
    def test_the_last_message_is_translated(self, client: openai.OpenAI, model: str) -> None:
        found = client.chat.completions.create(
            model=model,
            temperature=0,
            messages=[{"role": "system", "content": "Translate."}, {"role": "user", "content": HELLO}],
        )
        assert [choice.message.content for choice in found.choices] == [SHOUTED]
        assert found.choices[0].finish_reason == "stop" and found.usage is not None
        assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens > 0

    def test_n_returns_the_n_best_and_repeats_the_last(self, client: openai.OpenAI) -> None:
        found = client.chat.completions.create(
            model="quitmt-en-pt", n=4, seed=7, messages=[{"role": "user", "content": HELLO}]
        )
        texts = [choice.message.content for choice in found.choices]
        assert texts == [SHOUTED, SHOUTED + "!", SHOUTED + "…", SHOUTED + "…"]

    def test_streams_add_up_to_the_whole(self, client: openai.OpenAI) -> None:
        text = "  One is here. Two is there.\n\nThree is nowhere. "
        stream = client.chat.completions.create(
            model="quitmt-en-pt",
            stream=True,
            stream_options={"include_usage": True},
            messages=[{"role": "user", "content": text}],
        )
        chunks = list(stream)
        pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
        assert "".join(pieces) == text.upper() and len([piece for piece in pieces if piece]) == 3
        assert chunks[0].choices[0].delta.role == "assistant" and chunks[-1].usage is not None
        assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"

    def test_weblates_separator_is_kept(self, client: openai.OpenAI) -> None:
        text = "One fish.\n==WEBLATE_PART==\nTwo fish. Red fish.\n ==WEBLATE_PART== \nBlue."
        for stream in (False, True):
            found = client.chat.completions.create(
                model="quitmt-en-pt", stream=stream, messages=[{"role": "user", "content": text}]
            )
            if isinstance(found, openai.types.chat.ChatCompletion):
                told = found.choices[0].message.content
            else:
                told = "".join(chunk.choices[0].delta.content or "" for chunk in found)
            assert told == text.upper()

    def test_errors_have_openais_shape(self, client: openai.OpenAI, locked: Running) -> None:
        with pytest.raises(openai.NotFoundError, match="isn't served"):
            client.chat.completions.create(model="gpt-4", messages=[{"role": "user", "content": HELLO}])
        with pytest.raises(openai.BadRequestError, match="no user message"):
            client.chat.completions.create(model="quitmt", messages=[{"role": "system", "content": HELLO}])
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=f"{locked.url}/v1", api_key="wrong").models.list()
        assert openai.OpenAI(base_url=f"{locked.url}/v1", api_key=KEY).models.list().data


class TestNeMo:
    """Its client is a POST with these fields (docs/serve.md)."""

    def test_lists_in_lists_out(self, shared: Running) -> None:
        ask = {"texts": [HELLO, "", "Tea?"], "src_lang": "en", "tgt_lang": "pt"}
        assert shared.post("/translate", ask) == (200, {"translations": [SHOUTED, "", "TEA?"]})
        assert shared.post("/translate", {**ask, "texts": []}) == (200, {"translations": []})

    def test_errors(self, shared: Running) -> None:
        status, told = shared.post("/translate", {"texts": ["a"], "src_lang": "en", "tgt_lang": "xx"})
        assert status == 400 and "isn't served" in told["error"]
