"""Documents with tags: translated text, preserved markup, and the places of inline tags."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("turbohtml")
from quitmt.serve import work
from quitmt.serve.markup import Format, parse
from quitmt.serve.tags import html_tokens, string_tokens, xml_tokens
from tests.serve.conftest import Model, Running

WORDS = {"The door is open.": "A porta está aberta.", "door": "porta", "open": "aberta", "The door": "A porta"}


def shout(text: str) -> str:
    return WORDS.get(text, text.upper())


def translated(
    text: str,
    form: Format = "html",
    *,
    ignored: Sequence[str] = (),
    known: Mapping[str, Sequence[str]] | None = None,
    model: Callable[[str], str] = shout,
) -> str:
    document = parse(text, "en", form, ignored)
    known = {words: [model(words)] for words in document.spans} if known is None else known
    return document.joined([[model(one.text) for one in each.sentences] for each in document.passages], "pt", known)


@pytest.mark.parametrize(
    "text, told",
    [
        ("<p data-x=it's>Good morning.</p>", "<p data-x=it's>GOOD MORNING.</p>"),
        ("Tea &lt; milk &amp; salt", "TEA &lt; MILK &amp; SALT"),
        ("a<br>b <img alt='x > y'> c", "A<br>B <img alt='x > y'> C"),
        ("one<!-- <b>no</b> -->two", "ONE<!-- <b>no</b> -->TWO"),
        (
            "<script>if (a<b) {}</script><code>x <b>y</b></code>z",
            "<script>if (a<b) {}</script><code>x <b>y</b></code>Z",
        ),
        ('<p translate="no">a<p>b</p>c</p>d', '<p translate="no">a<p>b</p>c</p>D'),
        ("<i class='x notranslate'>a</i> b", "<i class='x notranslate'>a</i> B"),
        ("<P\r\n CLASS=x>a\r\nb</P>", "<P\r\n CLASS=x>A\r\nB</P>"),
        ("a < b, 1<2 and <3", "A &lt; B, 1&lt;2 AND &lt;3"),
        ("a <b", "A <b"),
        ("x</b> y<i>", "X</b> Y<i>"),
        ("it&#9999999999999999999999;s", "IT\ufffdS"),
        ("<title>a <b> c</title>", "<title>A &lt;B&gt; C</title>"),
    ],
)
def test_markup_is_preserved(text: str, told: str) -> None:
    assert translated(text) == told


@pytest.mark.parametrize(
    "text, told",
    [
        ("The <b>door</b> is open.", "A <b>porta</b> está aberta."),
        ("<b>The <i>door</i></b> is <u>open</u>.", "<b>A <i>porta</i></b> está <u>aberta</u>."),
        ("<b>The door is open</b>.", "<b>A porta está aberta</b>."),
        ("<b>The door is open.</b> <i>Tea.</i>", "<b>A porta está aberta.</b> <i>TEA.</i>"),
        ("<b>One. Two</b> three.", "<b>ONE. TWO</b> THREE."),
        ("Ask <a 1>me</a> or <a 2>you</a> now.", "ASK <a 1>ME</a> OR <a 2>YOU</a> NOW."),
        ("Tea<i class=icon></i> for two", "TEA<i class=icon></i> FOR TWO"),
        ("<li>One</li><li>Two</li>", "<li>ONE</li><li>TWO</li>"),
    ],
)
def test_tags_stay_around_their_words(text: str, told: str) -> None:
    assert translated(text) == told


@pytest.mark.parametrize(
    "known",
    [
        {},
        {"door": ["da porta"]},
        {"door": ["a"]},  # twice in the sentence
        {"door": ["port"]},  # only a part of a word
        {"door": [""]},
    ],
)
def test_where_the_words_are_not_found_the_tag_is_around_the_sentence(known: dict[str, list[str]]) -> None:
    sentence = {"The door is open.": "A porta está a abrir."}
    made = translated(
        "The <b>door</b> is <i>open</i>.", known={"open": ["abrir"], **known}, model=lambda s: sentence[s]
    )
    assert made == "<b><i>A porta está a abrir.</i></b>"


def test_words_that_are_there_twice_are_not_guessed_at() -> None:
    sentence = {"The door of the door.": "A porta."}
    made = translated("The <b>door</b> of the door.", known={"door": ["porta"]}, model=lambda s: sentence[s])
    assert made == "<b>A porta.</b>"


def test_a_later_candidate_may_be_the_one() -> None:
    assert (
        translated("The <b>door</b> is open.", known={"door": ["da porta", "Porta."]}) == "A <b>porta</b> está aberta."
    )


@pytest.mark.parametrize(
    "text, told",
    [
        ('Save <x id="1">my file</x> in <b>the bag</b>.', 'SAVE <x id="1">my file</x> IN <b>THE BAG</b>.'),
        ('Hello, <x id="7"></x>! Bye <x id="9"/>', 'HELLO, <x id="7"></x>! BYE <x id="9"/>'),
        ("<d><t>One <em>two</em></t><t>Three.</t></d>", "<d><t>ONE <em>TWO</em></t><t>THREE.</t></d>"),
        ("a<![CDATA[ x > y ]]>b<?pi a > b?>", "A<![CDATA[ x > y ]]>B<?pi a > b?>"),
        ('<?xml version="1.0"?>\n<title>A <b>b</b></title>', '<?xml version="1.0"?>\n<title>A <b>B</b></title>'),
        ("Tom & Jerry <b>run</b", "TOM &amp; JERRY <b>RUN</b"),
        ('<!DOCTYPE a [<!ENTITY b "x">]><a>&b;</a>', '<!DOCTYPE a [<!ENTITY b "x">]&gt;<a>&amp;B;</a>'),
    ],
)
def test_xml(text: str, told: str) -> None:
    assert translated(text, "xml", ignored=["x"]) == told


def test_strings_keep_placeholders_and_are_not_escaped() -> None:
    assert translated('Hi @@PH1@@ & <a href="@@PH2@@">you</a>!', "strings") == 'HI @@PH1@@ & <a href="@@PH2@@">YOU</a>!'


PIECES = st.sampled_from(
    [*"<>/='\"& .!-", "a", "Door is. ", " b ", "\r\n", "é", "😀", "&amp;", "&#65;", "<!--", "-->", "<![CDATA[", "]]>",
     "<b>", "</b>", "<i>", "</i>", "<a href=x>", "</a>", "<p>", "</p>", "<br>", "<x id='1'/>", "<script>", "</script>",
     "<code>", "</code>", "<span translate=no>", "</span>", "@@PH1@@"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=25).map("".join))
def test_no_markup_is_lost_or_made(text: str) -> None:
    for form, tokens in (("html", html_tokens), ("xml", xml_tokens), ("strings", string_tokens)):
        assert "".join(token.source for token in tokens(text)) == text
        assert translated(text, form, model=lambda one: one) is not None
        if form != "strings":  # whose translations are not escaped
            made = translated(text, form, model=lambda _: "x <b> & y")
            before, after = (Counter(t.source for t in tokens(one) if t.kind != "text") for one in (text, made))
            assert before == after


ATTACKS = {
    "space in a tag": lambda n: "<p class=" + " " * n + ">Good morning.</p>",
    "tags": lambda n: "<b>" * (n // 3),
    "nested": lambda n: "<b>" * (n // 8) + "a" + "</b>" * (n // 8),
    "crossed": lambda n: "<b><i>a</b></i> " * (n // 16),
    "sentences in tags": lambda n: "<b>A b. C</b> d. " * (n // 17),
    "brackets": lambda n: "<" * n,
    "comments": lambda n: "<!--" * (n // 4),
    "references": lambda n: "&" * n,
    "quotes": lambda n: "<a b='" * (n // 6),
    "digits": lambda n: "&#" + "9" * n + ";",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_the_work_is_linear(name: str) -> None:
    """Counts executed lines of our code: twice the text takes about twice as many."""

    def steps(size: int) -> int:
        count = 0

        def trace(frame: Any, event: str, argument: object) -> Any:
            nonlocal count
            count += 1
            return trace if "quitmt" in frame.f_code.co_filename else None

        text, before = ATTACKS[name](size), sys.gettrace()
        sys.settrace(trace)
        try:
            parse(text, "en", "html")
        finally:
            sys.settrace(before)
        return count

    assert steps(4000) < 3 * steps(2000) + 1000


def test_long_texts_are_read_beside_the_event_loop(
    start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    running, go, reading = start(), threading.Event(), threading.Event()

    def slow(*given: Any) -> Any:
        reading.set()
        assert go.wait(60)
        return parse(*given)

    monkeypatch.setattr(work, "parse", slow)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(running.post, "/api/translate", {"text": "Tea.", "source": "en", "target": "pt"})
        try:
            assert reading.wait(60)
            assert running.get("/health")[0] == 200
        finally:
            go.set()
        assert asked.result()[0] == 200


class Portuguese(Model):
    async def __call__(self, source: str, start: int, stop: int) -> list[str]:
        return [WORDS.get(source, source.upper())] * (stop - start)


def test_words_are_found_with_the_model_itself(start: Callable[..., Running]) -> None:
    running = start()
    running.models[0].__class__ = Portuguese
    ask = {"text": "<p>The <b>door</b> is open.</p>", "source": "en", "target": "pt", "format": "html", "nbest": 2}
    status, told = running.post("/api/translate", ask)
    assert (status, told["translation"]["text"]) == (200, "<p>A <b>porta</b> está aberta.</p>")
    assert [one["source"] for one in told["translation"]["sentences"]] == ["The door is open."]
