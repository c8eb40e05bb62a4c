"""The page in a real browser: Debian's chromium, driven by Playwright (``make test-browser``)."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Browser, Page, expect, sync_playwright

from quitmt.serve.keys import Keys
from tests.serve.conftest import KEY, Model, Running, functions, serving

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
SHOTS = Path(os.environ["SHOTS"]) if "SHOTS" in os.environ else None
"""A folder for screenshots, for manual inspection."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.fail("chromium isn't installed: apt-get install chromium")
    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@contextmanager
def opened(browser: Browser, running: Running, width: int = 1280, **settings: Any) -> Iterator[Page]:
    """A page; it must log no errors and contact only its server."""
    context = browser.new_context(viewport={"width": width, "height": 844}, **settings)
    page, complaints, asked = context.new_page(), list[str](), list[str]()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(running.url)
    yield page
    context.close()
    assert [one for one in complaints if "401" not in one] == []
    assert all(url.startswith((running.url, "data:")) for url in asked)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    models = (Model(upper=True), Model(upper=False))
    with serving(lambda: functions(models), models) as found:
        yield found


def ready(page: Page) -> None:
    expect(page.locator("#target option")).to_have_count(2)


@pytest.mark.parametrize("width, dark", [(1280, False), (390, True)])
def test_a_text_is_translated_and_explained(browser: Browser, running: Running, width: int, dark: bool) -> None:
    with opened(browser, running, width, color_scheme="dark" if dark else "light", has_touch=width < 800) as page:
        ready(page)
        page.fill("#text", "Good morning, friend. How are you today?\n\nThe house is old.")
        page.click("#go")
        expect(page.locator("#translation")).to_have_text("GOOD MORNING, FRIEND. HOW ARE YOU TODAY? THE HOUSE IS OLD.")
        assert page.locator("#translation").text_content() == (
            "GOOD MORNING, FRIEND. HOW ARE YOU TODAY?\n\nTHE HOUSE IS OLD."
        )
        expect(page.locator("#summary")).to_have_text(
            re.compile(r"Detected: English\. \d+ of 96 candidates: \d+ % saved\.")
        )
        expect(page.locator("#sentences > li")).to_have_count(3)
        first = page.locator("#sentences > li").first
        expect(first).to_contain_text(re.compile(r"\d+ of 32 candidates"))
        expect(first).to_contain_text("stopped: the best score stopped moving")
        assert re.match(r"M[\d.]+ [\d.]+L", first.locator("path").first.get_attribute("d") or "")
        expect(page.locator("#nbest-list li")).to_have_count(5)
        scores = [float(text) for text in page.locator("#nbest-list .score").all_inner_texts()]
        assert scores == sorted(scores, reverse=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) == dark
        if SHOTS:
            page.screenshot(path=SHOTS / f"page-{width}.png", full_page=True)


def test_everything_by_keyboard(browser: Browser, running: Running) -> None:
    with opened(browser, running) as page:
        ready(page)
        expect(page.locator("#text")).to_be_focused()
        page.keyboard.type("Tea, please.")
        page.keyboard.press("Control+Enter")
        expect(page.locator("#translation")).to_have_text("TEA, PLEASE.")
        reached = []
        for _ in range(10):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.id"))
        assert reached[:4] == ["effort", "deadline", "nbest", "go"] and "copy" in reached and "translation" in reached
        page.focus("#effort")
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#effort-shown")).to_have_text("a little faster")
        page.keyboard.press("Home")
        assert page.locator("#effort").get_attribute("aria-valuetext") == "fastest"


def test_languages_follow_each_other_and_swap(browser: Browser, running: Running) -> None:
    with opened(browser, running) as page:
        ready(page)
        page.select_option("#source", "pt")
        expect(page.locator("#target")).to_have_value("en")
        page.fill("#text", "CHÁ POR FAVOR.")
        page.click("#go")
        expect(page.locator("#translation")).to_have_text("chá por favor.")
        expect(page.locator("#summary")).not_to_contain_text("Detected")
        page.click("#swap")
        expect(page.locator("#source")).to_have_value("en")
        expect(page.locator("#target")).to_have_value("pt")
        expect(page.locator("#text")).to_have_value("chá por favor.")


def test_escape_stops_it_and_frees_the_server(browser: Browser, running: Running) -> None:
    running.models[0].open.clear()
    try:
        with opened(browser, running) as page:
            ready(page)
            page.fill("#text", "Take your time.")
            page.keyboard.press("Control+Enter")
            running.until(lambda: running.metric("quitmt_active_segments") == 1)
            expect(page.locator("#stop")).to_be_enabled()
            page.keyboard.press("Escape")
            running.until(lambda: running.metric("quitmt_active_segments") == 0)
            expect(page.locator("#stop")).to_be_disabled()
            expect(page.locator("#error")).to_be_hidden()
    finally:
        running.models[0].open.set()


def test_errors_are_shown_and_text_is_never_markup(browser: Browser, running: Running) -> None:
    with opened(browser, running) as page:
        ready(page)
        page.fill("#text", "This is BROKEN indeed.")
        page.click("#go")
        expect(page.locator("#error")).to_contain_text("the model fell over")
        page.fill("#text", "<img src=x onerror=alert(1)> and <b>bold</b>.")
        page.click("#go")
        expect(page.locator("#translation")).to_have_text("<IMG SRC=X ONERROR=ALERT(1)> AND <B>BOLD</B>.")
        expect(page.locator("#error")).to_be_hidden()
        assert page.locator("main img, main b").count() == 0


def test_the_score_moves_while_candidates_arrive(browser: Browser, running: Running) -> None:
    with opened(browser, running) as page:
        ready(page)
        page.fill("#deadline", "1.5")
        page.fill("#text", "ENDLESS tea.")
        page.click("#go")
        card = page.locator("#sentences > li")
        expect(card).to_contain_text("4 of 32 candidates")
        expect(card.locator(".arriving")).to_contain_text("latest: ")
        expect(card).to_contain_text("stopped: the time was up", timeout=10_000)


def test_a_server_with_keys_asks_for_one(browser: Browser) -> None:
    models = (Model(upper=True), Model(upper=False))
    with serving(lambda: functions(models), models, keys=Keys([KEY])) as locked, opened(browser, locked) as page:
        expect(page.locator("#error")).to_have_text("This server requires a key.")
        page.fill("#key", KEY)
        page.keyboard.press("Tab")
        ready(page)
        page.fill("#text", "Tea.")
        page.click("#go")
        expect(page.locator("#translation")).to_have_text("TEA.")
